#!/bin/sh
# Real workers against the pinboard binary of this tree. Makes its own virtual
# environment under .cache/ on first use. Arguments go to pytest:
#   interop/run.sh                    what every change must pass
#   interop/run.sh -m nightly         every release of the client
#   interop/run.sh -n0 -k frozen      one test, its output as it comes
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
. "$root/interop/venv.sh"
cd "$root/interop"
exec "$venv/bin/python" -m pytest -n "${INTEROP_PARALLEL:-4}" "$@"
