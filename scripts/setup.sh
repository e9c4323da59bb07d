#!/usr/bin/env bash
# Makes what the tests need, once: modules, a redis-server, and the virtual
# environment of venv.sh, where a valkey-server is too. Prints only what it has to do.
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

scripts/venv.sh
