#!/usr/bin/env bash
# Runs staticcheck, one version everywhere. go run builds it once and both keep
# a cache: nothing changed costs about a second.
set -euo pipefail
cd "$(dirname "$0")/.."
go run honnef.co/go/tools/cmd/staticcheck@v0.8.2 ./...
