#!/usr/bin/env bash
# Makes what the tests need, once: modules, a redis-server, and a virtual
# environment with the real worker client in .cache/venv. Prints only what it
# has to do.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() { echo "setup: $*" >&2; exit 1; }

command -v go >/dev/null || fail "Go is missing (go.mod names the version)"
go mod download

if ! command -v redis-server >/dev/null; then
  [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null ||
    fail "redis-server is missing: install it (Debian: apt-get install redis-server)"
  echo "setup: installing redis-server"
  export DEBIAN_FRONTEND=noninteractive
  apt-get install -y -qq redis-server >/dev/null 2>&1 ||
    { apt-get update -qq && apt-get install -y -qq redis-server >/dev/null; }
  # The package starts a server of its own; the tests start theirs.
  service redis-server stop >/dev/null 2>&1 || true
fi

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
