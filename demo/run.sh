#!/bin/sh
# Shows Pinboard at work in half a minute: one node (pinboard
# dev), two real workers, a crash. Needs Go; Python 3.11 or newer for the real workers (Go
# workers stand in without it). Leaves nothing running.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
work=$(mktemp -d)
stage=

finish() {
	trap - EXIT INT TERM
	if [ -n "$stage" ]; then
		kill "$stage" 2>/dev/null || true
		wait "$stage" 2>/dev/null || true
	fi
	# The stage stops its processes and removes this file. It is still there
	# only if the stage itself was killed.
	if [ -f "$work/pids" ]; then
		while read -r pid; do kill "$pid" 2>/dev/null || true; done <"$work/pids"
	fi
	rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT TERM

echo "building ..."
go build -o bin/pinboard ./cmd/pinboard
go build -o bin/pinboard-demo ./demo
go build -o bin/pinboard-demo-counters ./demo/counters
if scripts/venv.sh; then
	set -- -python .cache/venv/bin/python
else
	echo "no usable Python or no package index: Go workers stand in for the Python ones"
	set --
fi
bin/pinboard-demo -dir "$work" "$@" &
stage=$!
wait "$stage" && status=0 || status=$?
stage=
exit "$status"
