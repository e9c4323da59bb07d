#!/usr/bin/env bash
# What takes too long for every change. NIGHTLY_FUZZ is the time per fuzz
# target (default 10m).
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/test.sh
scripts/check.sh
for package in $(grep -rls --include='*_test.go' 'func Fuzz' . | xargs -r -n1 dirname | sort -u); do
  for target in $(scripts/fuzz-targets.sh "$package"); do
    echo "== fuzz $package $target"
    go test -run '^$' -fuzz "^$target\$" -fuzztime "${NIGHTLY_FUZZ:-10m}" "$package"
  done
done
echo "== long tests"
PINBOARD_NIGHTLY=1 go test -race -skip Alloc -count 1 -p 1 -timeout 3h ./...
cat .cache/recoveries.txt
echo "== simulation"
go test ./internal/sim -run 'TestSeeds$' -count 1 -timeout 3h -v -sim.seeds=10000
echo "== faults put into the rules: each must be noticed"
go run ./internal/sim/mutate
echo "== every client release"
.cache/venv/bin/python -m pytest -q -n 6 -m nightly interop
