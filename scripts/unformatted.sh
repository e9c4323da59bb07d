#!/usr/bin/env bash
# Fails and names the files that gofmt would change.
set -euo pipefail
cd "$(dirname "$0")/.."
files=$(git ls-files -co --exclude-standard '*.go' | xargs -r gofmt -l)
[ -z "$files" ] || { echo "gofmt -w $files"; exit 1; }
