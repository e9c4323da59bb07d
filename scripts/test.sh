#!/usr/bin/env bash
# All tests. The last line is "N passed, N failed, N skipped", counted from
# what the runners reported; the exit status says whether anything failed.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/setup.sh
tally=.cache/tally
rm -rf "$tally"
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
  go test -json "$@" | bin/testsum go "$tally/$name" || failed=1
}

step gofmt scripts/unformatted.sh
step vet go vet ./...

race=()
if [ "$(go env CGO_ENABLED)" = 1 ] && command -v "$(go env CC)" >/dev/null; then
  race=(-race)
else
  echo "no C compiler: tests run without the race detector"
fi
gotest go "${race[@]}" -timeout 10m ./...
for target in $(scripts/fuzz-targets.sh internal/h1); do
  gotest "fuzz-$target" -run '^$' -fuzz "^$target\$" -fuzztime 20s ./internal/h1
done

echo "== interop"
.cache/venv/bin/python -m pytest -q -n 2 --junitxml "$tally/interop.xml" interop || failed=1
bin/testsum junit "$tally/interop" "$tally/interop.xml" || failed=1

bin/testsum total "$tally" || failed=1
exit $failed
