#!/bin/sh
# Side-by-side benchmark of Pinboard and its peers; see README.md. Flags go to the benchmark: run.sh -quick, run.sh -write, ...
set -eu
cd "$(dirname "$0")/.."
bench/setup.sh
# 5,000 idle connections are 10,000 descriptors of a proxy; programs inherit the soft limit.
ulimit -n "$(ulimit -Hn)"
go build -o bin/bench ./bench
exec bin/bench "$@"
