#!/bin/sh
# Side-by-side benchmark of Pinboard and its peers; see README.md. Flags go to the benchmark: run.sh -quick, run.sh -write, ...
set -eu
cd "$(dirname "$0")/.."
bench/setup.sh
go build -o bin/bench ./bench
exec bin/bench "$@"
