#!/usr/bin/env bash
# fuzz-targets.sh DIRECTORY: the fuzz targets of one package.
set -euo pipefail
cd "$(dirname "$0")/.."
[ -d "$1" ] || exit 0
grep -hos 'func Fuzz[A-Za-z0-9_]*' "$1"/*_test.go | cut -d' ' -f2 | sort -u || true
