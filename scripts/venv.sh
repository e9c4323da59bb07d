#!/usr/bin/env bash
# Makes a virtual environment with the real worker client in .cache/venv, once
# and again whenever interop/requirements.txt changes.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() { echo "setup: $*" >&2; exit 1; }

python=
for candidate in python3 python3.13 python3.12 python3.11; do
  if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    python=$candidate
    break
  fi
done
[ -n "$python" ] || fail "Python 3.11 or newer is missing: the tests drive the real worker client"

venv=.cache/venv
wanted=$(cksum <interop/requirements.txt)
if [ "$(cat "$venv/.made-from" 2>/dev/null)" != "$wanted" ]; then
  echo "setup: making $venv"
  rm -rf "$venv"
  mkdir -p .cache
  "$python" -m venv "$venv" || fail "no virtual environment (Debian: apt-get install python3-venv)"
  "$venv/bin/pip" install --quiet --disable-pip-version-check -r interop/requirements.txt
  echo "$wanted" >"$venv/.made-from"
fi
