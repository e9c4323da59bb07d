#!/bin/sh
# Installs what the side-by-side benchmark runs beside Pinboard, where missing: Debian packages (as root) and the modules
# of the Node peer. "setup.sh --caddy" also builds Caddy, which is measured when it is there.
set -eu
cd "$(dirname "$0")"

missing=
for package in nginx haproxy wrk libnginx-mod-http-lua lua-resty-core redis-server nodejs npm linux-perf strace; do
  case $package in
    nodejs) command -v node >/dev/null && continue ;;
    npm) command -v npm >/dev/null && continue ;;
  esac
  dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q '^install ok installed$' || missing="$missing $package"
done
if [ -n "$missing" ]; then
  # No service may start: the benchmark runs its own processes on ports of its own.
  policy=/usr/sbin/policy-rc.d
  if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod +x "$policy"
    trap 'rm -f "$policy"' EXIT
  fi
  apt-get update -q
  # shellcheck disable=SC2086
  DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends $missing
fi

if ! node -e 'process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)'; then
  echo "the Node peer needs node 20 or later; here is $(node --version)" >&2
  exit 1
fi
[ -d peers/node/node_modules/undici ] && if ! node -e 'process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)'; then
  echo "the Node peer needs node 20 or later; here is $(node --version)" >&2
  exit 1
fi
[ -d peers/node/node_modules/ioredis ] ||
  (cd peers/node && npm install --no-package-lock --no-audit --no-fund --omit=dev)

if [ "${1:-}" = --caddy ] && ! command -v caddy >/dev/null; then
  GOBIN="${GOBIN:-/usr/local/bin}" GOFLAGS= go install github.com/caddyserver/caddy/v2/cmd/caddy@v2.11.9
fi
