#!/usr/bin/env bash
# What takes too long for every change. NIGHTLY_FUZZ is the time per fuzz
# target (default 10m). Every part runs, whatever fails before it; the last
# line says which parts failed.
set -uo pipefail
cd "$(dirname "$0")/.."
failed=()
part() { # part NAME COMMAND...
  local name=$1
  shift
  echo "== $name"
  "$@" || failed+=("$name")
}

part "all tests" scripts/test.sh
part "checks" scripts/check.sh
for package in $(grep -rls --include='*_test.go' 'func Fuzz' . | xargs -r -n1 dirname | sort -u); do
  for target in $(scripts/fuzz-targets.sh "$package"); do
    part "fuzz $package $target" go test -run '^$' -fuzz "^$target\$" -fuzztime "${NIGHTLY_FUZZ:-10m}" "$package"
  done
done
part "long tests" env PINBOARD_NIGHTLY=1 go test -race -skip 'Alloc|NeverTwoOwners' -count 1 -p 1 -timeout 3h ./...
cat .cache/recoveries.txt
part "faults, leases of 15 s" env PINBOARD_NIGHTLY=1 PINBOARD_FAULTS_LEASE=15s go test ./internal/faults -run "TestClockOfTheStoreSlews$" -count 1 -timeout 30m
part "simulation" go test ./internal/sim -run 'TestSeeds$' -count 1 -timeout 3h -v -sim.seeds=10000
part "faults put into the rules, each to be noticed" go run ./internal/sim/mutate
part "every guard that a script finds, taken away" go run ./internal/mutants
part "every client release" .cache/venv/bin/python -m pytest -q -n 6 -m nightly interop

if [ ${#failed[@]} -gt 0 ]; then
  printf 'nightly: failed:'
  printf ' [%s]' "${failed[@]}"
  echo
  exit 1
fi
echo "nightly: all passed"
