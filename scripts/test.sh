#!/usr/bin/env bash
# All tests. The last line is "N passed, N failed, N skipped", counted from
# what the runners reported; the exit status says whether anything failed.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/setup.sh
tally=.cache/tally
rm -rf "$tally" .cache/recoveries.txt
mkdir -p "$tally" bin
go build -o bin/pinboard ./cmd/pinboard
go build -o bin/testsum ./scripts/testsum
failed=0

step() { # step NAME COMMAND...: a check that counts as one test
  local name=$1
  shift
  echo "== $name"
  bin/testsum step "$tally/$name" "$@" || failed=1
}
gotest() { # gotest NAME ARGUMENTS...
  local name=$1
  shift
  echo "== $name"
  go test -json -count 1 "$@" | bin/testsum go "$tally/$name" || failed=1
}

step gofmt scripts/unformatted.sh
step vet go vet ./...
step tidy go mod tidy -diff
step staticcheck scripts/staticcheck.sh

# Packages whose goroutines share memory run under the race detector, one at a
# time: many tests measure time. Two kinds of tests run without it: allocation
# guards, since it allocates, and the storm of TestNeverTwoOwners, which starts
# so many timers of testing/synctest that the detector's own runtime crashes
# now and then (golang/go#78156).
plain='Alloc|NeverTwoOwners'
shared="internal/ownership internal/guard internal/directory internal/memstore internal/redisstore internal/registry internal/proxy
  internal/server internal/passport internal/outbound worker client"
racy=()
for package in $shared; do
  if [ -d "$package" ]; then racy+=("./$package/..."); fi
done
if [ "$(go env CGO_ENABLED)" = 1 ] && command -v "$(go env CC)" >/dev/null; then
  gotest race -race -skip "$plain" -p 1 -timeout 10m "${racy[@]}"
  gotest plain -run "$plain" -p 1 "${racy[@]}"
  # shellcheck disable=SC2046
  gotest go -p 1 -timeout 10m $(go list ./... | grep -vxF "$(go list "${racy[@]}")")
else
  echo "no C compiler: nothing runs under the race detector"
  gotest go -p 1 -timeout 10m ./...
fi
cat .cache/recoveries.txt 2>/dev/null || true
for target in $(scripts/fuzz-targets.sh internal/h1); do
  gotest "fuzz-$target" -run '^$' -fuzz "^$target\$" -fuzztime 20s ./internal/h1
done

# Guards in lines that changed since the branch left main are taken away one
# by one; the night takes all (scripts/nightly.sh).
step guards go run ./internal/mutants -since auto -for 3m -skip search,seeds

echo "== interop"
.cache/venv/bin/python -m pytest -q -n 6 --junitxml "$tally/interop.xml" interop || failed=1
bin/testsum junit "$tally/interop" "$tally/interop.xml" || failed=1

bin/testsum total "$tally" || failed=1
exit $failed
