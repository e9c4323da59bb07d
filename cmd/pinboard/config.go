package main

import (
	"net/netip"
	"time"

	"github.com/alecthomas/kong"

	"pinboard/internal/proxy"
)

// Config is every setting of a node. Each is an environment variable (tag
// var) and a flag, the flag wins; an empty variable counts as absent. The help
// texts are the manual: `pinboard serve --help` prints them, the README table
// is checked against them by a test.
type Config struct {
	Port int    `var:"PORT" default:"8080" group:"Listening" help:"TCP port for clients, workers, probes and metrics; 0 picks a free one."`
	Host string `var:"PINBOARD_HOST" group:"Listening" placeholder:"ADDRESS" help:"Address to listen on; all of the machine's when absent."`

	RedisURL           string `var:"REDIS_URL" placeholder:"URL" group:"Store" help:"Where nodes agree: redis://[USER:PASSWORD@]HOST[:PORT][/DB], redis+sentinel://HOST,HOST?master=NAME or redis+cluster://HOST,HOST, rediss in place of redis for TLS; options ?password_file= ca= cert= key= servername= sentinel_user= sentinel_password= sentinel_password_file= (docs/operating.md); or memory: for one node alone (development; says so in the log). Required: no node falls back to a store of its own."`
	RedisURLFile       string `var:"REDIS_URL_FILE" placeholder:"FILE" group:"Store" help:"File that holds the URL, instead of REDIS_URL. It is read again for each connection, so a password is rotated without a restart; so are the files that the URL names."`
	KeyPrefix          string `var:"PINBOARD_KEY_PREFIX" default:"pb" placeholder:"NAME" group:"Store" help:"Prefix of all keys in a shared Redis."`
	Buckets            int    `var:"PINBOARD_BUCKETS" default:"16" group:"Store" help:"Shares of the store, a small multiple of the Redis shards; the same on every node, recorded in the store."`
	AllowEvictingRedis bool   `var:"PINBOARD_ALLOW_EVICTING_REDIS" group:"Store" help:"Start on a Redis whose maxmemory-policy may evict placements. Evicted rows are lost ownership: not for production."`
	RequireSafeStore   bool   `var:"PINBOARD_REQUIRE_SAFE_STORE" group:"Store" help:"Refuse to start unless the store's replication keeps single ownership through partitions of the store itself."`
	ColdStart          string `var:"PINBOARD_COLD_START" enum:"on,off" default:"on" group:"Store" help:"off skips the wait of one lease after the first boot; only with memory:, for development."`

	Token        string `var:"PINBOARD_TOKEN" placeholder:"SECRET" group:"Identity" help:"Bearer token that may do everything under /registry. Required unless a passport is given; never blank. Prefer the variable: flags show in process lists."`
	Passport     string `var:"PINBOARD_PASSPORT" placeholder:"JSON|@FILE" group:"Identity" help:"Further tokens with scopes, namespaces, hostnames, envs and backend hosts, and issuers whose signed tokens (JWT) are believed; JSON, or @ and the path of a file, which SIGHUP reloads; a bare name is that of a systemd credential, if the service has any."`
	RequireProof bool   `var:"PINBOARD_REQUIRE_PROOF" group:"Identity" help:"Refuse workers that register without a challenge."`

	LegacyPaths bool `var:"PINBOARD_LEGACY_PATHS" group:"Identity" help:"Take a worker whose advertise URL ends in its only namespace for a client of 0.4.1 or older, even if it sends a challenge."`

	AdvertiseAllow Prefixes `var:"PINBOARD_ADVERTISE_ALLOW" placeholder:"CIDR,..." group:"Identity" help:"Networks that workers may advertise; all but link-local and metadata addresses when absent."`
	AdvertiseDeny  Prefixes `var:"PINBOARD_ADVERTISE_DENY" placeholder:"CIDR,..." group:"Identity" help:"Networks that workers may never advertise, besides link-local and metadata addresses."`

	LeaseTTL      time.Duration `name:"lease-ttl-ms" var:"PINBOARD_LEASE_TTL_MS" type:"ms" default:"15000" group:"Placement" help:"A worker's right to serve, renewed by its heartbeats: how long ids of a dead worker are away, and how long a new store stays cold. Below 8000 the real client's defaults do not fit."`
	HostnameAware bool          `var:"PINBOARD_HOSTNAME_AWARE" group:"Placement" help:"Serve several hostnames, each with its own workers and data."`
	Affinity      Affinity      `var:"PINBOARD_AFFINITY" default:"ip" placeholder:"KEY" group:"Placement" help:"What makes first requests of one client prefer one worker: ip, header:Name, cookie:name, query:name or none."`
	BalanceFactor float64       `var:"PINBOARD_BALANCE_FACTOR" default:"1.25" group:"Placement" help:"A preferred worker is taken while its headroom is at least the mean divided by this."`
	PlaceRate     float64       `var:"PINBOARD_PLACE_RATE" default:"0" placeholder:"N" group:"Placement" help:"New ids per second that one client address may cause on a node, bursts of ten seconds' worth; beyond it 429. 0 is no limit."`
	RestateAfter  int           `var:"PINBOARD_RESTATE_AFTER" default:"10000" group:"Placement" help:"Placements minus releases after which a worker is asked to restate what it really holds."`

	DurabilityURL string `name:"durability-postgres-url" var:"PINBOARD_DURABILITY_POSTGRES_URL" placeholder:"URL" group:"Placement" help:"The workers' index of unfinished work. Not used by this version, which wakes no instance by itself; setting it logs a warning."`

	TrustedProxies  TrustedProxies `var:"PINBOARD_TRUSTED_PROXIES" default:"private" placeholder:"CIDR,..." group:"Forwarding" help:"Peers whose X-Forwarded-* fields are believed, such as the TLS front that says X-Forwarded-Proto: https. Networks and the words private (RFC 1918 and fc00::/7) and loopback (a front on the same host), separated by commas, or none."`
	CORSOrigins     []string       `var:"PINBOARD_CORS_ORIGINS" placeholder:"ORIGIN" group:"Forwarding" help:"Browser origins that may read Pinboard's own errors; answers of workers are never touched."`
	WorkerMaxConns  int            `var:"PINBOARD_WORKER_MAX_CONNS" default:"1024" group:"Forwarding" help:"Finite exchanges per worker and node at a time; streams do not count."`
	InstanceMax     int            `name:"instance-max-conns" var:"PINBOARD_INSTANCE_MAX_CONNS" default:"0" group:"Forwarding" help:"Finite exchanges per instance and node at a time; 0 is half of the worker's, so that one hot id leaves room for the others."`
	ConnectTimeout  time.Duration  `name:"connect-timeout-ms" var:"PINBOARD_CONNECT_TIMEOUT_MS" type:"ms" default:"2000" group:"Forwarding" help:"TCP connect to a worker, per address."`
	ResponseTimeout time.Duration  `name:"response-timeout-ms" var:"PINBOARD_RESPONSE_TIMEOUT_MS" type:"ms" default:"300000" group:"Forwarding" help:"Wait for a worker's response head; 0 is for ever."`
	PoolIdle        time.Duration  `name:"pool-idle-ms" var:"PINBOARD_POOL_IDLE_MS" type:"ms" default:"4000" group:"Forwarding" help:"Idle connections to workers close after this; keep it under the worker's own keep-alive (uvicorn: 5 s)."`
	HalfCloseGrace  time.Duration  `name:"half-close-grace-ms" var:"PINBOARD_HALF_CLOSE_GRACE_MS" type:"ms" default:"1000" group:"Forwarding" help:"Silence after which the exchange of a client that closed its sending side ends."`
	ShutdownNotice  time.Duration  `name:"shutdown-notice-ms" var:"PINBOARD_SHUTDOWN_NOTICE_MS" type:"ms" default:"8000" group:"Lifecycle" help:"After SIGTERM: /readyz says 503 and everything is still served for this long, so that balancers notice."`
	ShutdownBudget  time.Duration  `name:"shutdown-budget-ms" var:"PINBOARD_SHUTDOWN_BUDGET_MS" type:"ms" default:"25000" group:"Lifecycle" help:"From SIGTERM to exit, notice included; streams still open then are cut."`
	LogLevel        string         `var:"LOG_LEVEL" enum:"debug,info,warn,error" default:"info" group:"Lifecycle" help:"Least level that is logged."`
	LogFormat       string         `var:"LOG_FORMAT" enum:"auto,json,text" default:"auto" group:"Lifecycle" help:"auto is text on a terminal, one JSON object per line elsewhere."`

	dev bool // pinboard dev: what it is for has been said already
}

// Prefixes is a comma-separated list of CIDRs; a bare address is one host.
type Prefixes []netip.Prefix

// TrustedProxies is Prefixes, or the words "private" and "none".
type TrustedProxies []netip.Prefix

// Affinity is the key that makes a client prefer one worker.
type Affinity struct{ proxy.Affinity }

// fromEnvironment reads the variable of each flag that the command line left
// out; hidden flags are not for the environment. This file alone knows the
// names.
func fromEnvironment(getenv func(string) string) kong.Resolver {
	return kong.ResolverFunc(func(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
		variable := flag.Tag.Get("var")
		if variable == "" || flag.Hidden {
			return nil, nil
		}
		if v := getenv(variable); v != "" {
			return v, nil
		}
		return nil, nil
	})
}

// describe is one line of the manual: the help text and the variable.
func describe(v *kong.Value) string {
	help := v.Help
	if v.Default != "" && v.Tag.PlaceHolder != "" { // which stands where the default would
		help += " Default: " + v.Default + "."
	}
	if variable := v.Tag.Get("var"); variable != "" {
		help += " [$" + variable + "]"
	}
	return help
}
