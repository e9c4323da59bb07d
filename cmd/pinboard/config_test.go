package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
)

var update = flag.Bool("update", false, "rewrite the configuration table of README.md")

const secret = "s3cr3t-value"

// One clear line on stderr, exit 2, and never a secret in it.
func TestBadValues(t *testing.T) {
	for _, tt := range []struct {
		env  string // space-separated NAME=value; _ is a space in a value
		args string
		want string
	}{
		{"REDIS_URL=", "", "REDIS_URL is required (or REDIS_URL_FILE): REDIS_URL=redis://host:6379 for nodes that share a store, REDIS_URL=memory: for one node alone (pinboard dev is the quick start)"},
		{"T REDIS_URL=", "", "REDIS_URL is required"},
		{"", "", "PINBOARD_TOKEN is required (or PINBOARD_PASSPORT)"},
		{"PINBOARD_TOKEN=", "", "PINBOARD_TOKEN is required (or PINBOARD_PASSPORT)"},
		{"PINBOARD_TOKEN=__", "", "PINBOARD_TOKEN is blank"},
		{"PINBOARD_TOKEN=\t", "", "PINBOARD_TOKEN is blank"},
		{"PINBOARD_TOKEN=a_b", "", "PINBOARD_TOKEN must be visible ASCII without spaces: it travels in a header"},
		{"PINBOARD_TOKEN=" + secret + "\n", "", "PINBOARD_TOKEN must be visible ASCII"},
		{"PINBOARD_TOKEN=__ PINBOARD_PASSPORT=@x", "", "PINBOARD_TOKEN is blank"},
		{"PINBOARD_PASSPORT=__", "", "PINBOARD_PASSPORT is blank"},
		{"PINBOARD_PASSPORT={" + secret, "", "PINBOARD_PASSPORT"},
		{"PINBOARD_PASSPORT=@nowhere.json", "", "PINBOARD_PASSPORT"},
		{"T PORT=x", "", `PORT (--port): expected a valid 64 bit int but got "x"`},
		{"T PORT=65536", "", "PORT: want 0 to 65535, got 65536"},
		{"T", "--port=-1", "PORT: want 0 to 65535, got -1"},
		{"T PORT=7", "--port=x", `PORT (--port): expected a valid 64 bit int but got "x"`},
		{"T REDIS_URL=http://h", "", "REDIS_URL: "},
		{"T REDIS_URL=http://:" + secret + "@h", "", "REDIS_URL: "},
		{"T REDIS_URL=redis://u:" + secret + "@h:port", "", "REDIS_URL: "},
		{"T REDIS_URL=redis://", "", "REDIS_URL: "},
		{"T REDIS_URL=redis://:" + secret + "/" + secret + "@h", "", "REDIS_URL: "},
		{"T REDIS_URL=redis://:1/" + secret + "@h", "", "REDIS_URL: "},
		{"T REDIS_URL=redis://u:1/" + secret + "@h:1", "", "REDIS_URL: "},
		{"T REDIS_URL=redis://u:1?" + secret + "@h:1", "", "REDIS_URL: "},
		{"T REDIS_URL=redis://u:" + secret + "/0?x=1@h:1", "", "REDIS_URL: "},
		{"T REDIS_URL=redis://u:" + secret + "#1@h:port", "", "REDIS_URL: "},
		{"T", "redis://:" + secret + "@h", "unexpected argument (a URL)"},
		{"T", "--port=redis://:" + secret + "@h", `PORT (--port): expected a valid 64 bit int but got "(a URL)"`},
		{"T REDIS_URL=redis://:" + secret + "/x@h", "", "REDIS_URL: store URL: percent-encode"},
		{"T REDIS_URL=redis://:x/" + secret + "@h", "", "REDIS_URL: store URL: percent-encode"},
		{"T REDIS_URL=redis://h?poolsize=1", "", `REDIS_URL: store URL: unknown option "poolsize"; known: db, user, password, password_file`},
		{"T REDIS_URL_FILE=nowhere", "", "REDIS_URL_FILE: store URL: open nowhere: no such file"},
		{"T REDIS_URL_FILE=nowhere REDIS_URL=redis://h", "", "REDIS_URL and REDIS_URL_FILE are both given"},
		{"T REDIS_URL=memory", "", "REDIS_URL: "},
		{"T PINBOARD_COLD_START=maybe", "", `PINBOARD_COLD_START (--cold-start) must be one of "on","off" but got "maybe"`},
		{"T PINBOARD_COLD_START=off REDIS_URL=redis://h:1", "", "PINBOARD_COLD_START=off is for REDIS_URL=memory: only"},
		{"T PINBOARD_REQUIRE_SAFE_STORE=1", "", "PINBOARD_REQUIRE_SAFE_STORE needs a replicated Redis"},
		{"T PINBOARD_KEY_PREFIX={a}", "", "PINBOARD_KEY_PREFIX: want 1 to 64"},
		{"T PINBOARD_KEY_PREFIX=a%b", "", "PINBOARD_KEY_PREFIX: want 1 to 64"},
		{"T PINBOARD_BUCKETS=0", "", "PINBOARD_BUCKETS: want 1 to 1024, got 0"},
		{"T PINBOARD_LEASE_TTL_MS=15s", "", `PINBOARD_LEASE_TTL_MS (--lease-ttl-ms): want a whole number of milliseconds, got "15s"`},
		{"T PINBOARD_LEASE_TTL_MS=999", "", "PINBOARD_LEASE_TTL_MS: want 1000 to 600000, got 999"},
		{"T PINBOARD_HOSTNAME_AWARE=maybe", "", "PINBOARD_HOSTNAME_AWARE (--hostname-aware): bool value must be"},
		{"T PINBOARD_AFFINITY=header", "", `PINBOARD_AFFINITY (--affinity): affinity "header": want ip, header:Name`},
		{"T PINBOARD_AFFINITY=cookie:a=b", "", `PINBOARD_AFFINITY (--affinity): want a name behind the colon, got "cookie:a=b"`},
		{"T PINBOARD_AFFINITY=ip:x", "", `PINBOARD_AFFINITY (--affinity): affinity "ip:x": want ip, header:Name`},
		{"T PINBOARD_AFFINITY=moon", "", `PINBOARD_AFFINITY (--affinity): affinity "moon": want ip, header:Name, cookie:name, query:name or none`},
		{"T PINBOARD_BALANCE_FACTOR=0.9", "", "PINBOARD_BALANCE_FACTOR: want 1 to 1000, got 0.9"},
		{"T PINBOARD_BALANCE_FACTOR=NaN", "", "PINBOARD_BALANCE_FACTOR: want 1 to 1000, got NaN"},
		{"T PINBOARD_PLACE_RATE=-1", "", "PINBOARD_PLACE_RATE: want 0 to 1000000, got -1"},
		{"T PINBOARD_RESTATE_AFTER=0", "", "PINBOARD_RESTATE_AFTER: want at least 1, got 0"},
		{"T PINBOARD_TRUSTED_PROXIES=10.0.0.0/33", "", `PINBOARD_TRUSTED_PROXIES (--trusted-proxies): want a comma-separated list of CIDRs, got "10.0.0.0/33"`},
		{"T PINBOARD_ADVERTISE_DENY=10.0.0.0/8,,", "", `PINBOARD_ADVERTISE_DENY (--advertise-deny): want a comma-separated list of CIDRs, got ""`},
		{"T PINBOARD_CORS_ORIGINS=example.com", "", "PINBOARD_CORS_ORIGINS: want scheme://host[:port] or * (entry 1)"},
		{"T PINBOARD_CORS_ORIGINS=https://a.example,https://u:" + secret + "@b.example", "", "PINBOARD_CORS_ORIGINS: want scheme://host[:port] or * (entry 2)"},
		{"T PINBOARD_CORS_ORIGINS=https://a.example/", "", `PINBOARD_CORS_ORIGINS: want scheme://host[:port] or *`},
		{"T PINBOARD_INSTANCE_MAX_CONNS=1025", "", "PINBOARD_INSTANCE_MAX_CONNS: want 0 to 1024 (PINBOARD_WORKER_MAX_CONNS), got 1025"},
		{"T PINBOARD_WORKER_MAX_CONNS=0", "", "PINBOARD_WORKER_MAX_CONNS: want at least 1, got 0"},
		{"T PINBOARD_CONNECT_TIMEOUT_MS=0", "", "PINBOARD_CONNECT_TIMEOUT_MS: want at least 1, got 0"},
		{"T PINBOARD_HALF_CLOSE_GRACE_MS=0", "", "PINBOARD_HALF_CLOSE_GRACE_MS: want at least 1, got 0"},
		{"T PINBOARD_POOL_IDLE_MS=60001", "", "PINBOARD_POOL_IDLE_MS: want 1 to 60000, got 60001"},
		{"T PINBOARD_SHUTDOWN_NOTICE_MS=30000", "", "PINBOARD_SHUTDOWN_NOTICE_MS (30000) exceeds PINBOARD_SHUTDOWN_BUDGET_MS (25000), which includes it"},
		{"T LOG_LEVEL=loud", "", `LOG_LEVEL (--log-level) must be one of "debug","info","warn","error" but got "loud"`},
		{"T LOG_FORMAT=xml", "", `LOG_FORMAT (--log-format) must be one of "auto","json","text" but got "xml"`},
		{"T PINBOARD_HOST=nowhere.invalid PORT=0", "", "PINBOARD_HOST: not an address of this machine: nowhere.invalid"},
		{"T PINBOARD_HOST=192.0.2.1 PORT=0", "", "PINBOARD_HOST: not an address of this machine: 192.0.2.1"},
		{"T", "--nonsense", "unknown flag --nonsense"},
		{"T", "extra", "unexpected argument extra"},
	} {
		t.Run(strings.TrimSpace(tt.env+" "+tt.args), func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			code := run(t.Context(), append([]string{"serve"}, strings.Fields(tt.args)...), variables(tt.env), &stdout, &stderr)
			if code != 2 {
				t.Errorf("exit %d", code)
			}
			line := stderr.String()
			if !strings.HasPrefix(line, "pinboard: "+tt.want) || strings.Count(line, "\n") != 1 || !strings.HasSuffix(line, "\n") {
				t.Errorf("stderr %q\nwant one line that begins with %q", line, "pinboard: "+tt.want)
			}
			if stdout.Len() > 0 {
				t.Errorf("stdout %q", stdout.String())
			}
			if strings.Contains(line, secret) {
				t.Errorf("the secret is in the message: %s", line)
			}
		})
	}
}

// variables reads the compact form of TestBadValues.
// Without a REDIS_URL in it the node stands alone.
func variables(s string) (environ []string) {
	if !strings.Contains(s, "REDIS_URL_FILE=") {
		environ = append(environ, "REDIS_URL=memory:")
	}
	for _, field := range strings.Split(s, " ") {
		name, value, _ := strings.Cut(field, "=")
		environ = append(environ, name+"="+strings.ReplaceAll(value, "_", " "))
		if name == "T" {
			environ = append(environ, "PINBOARD_TOKEN="+secret)
		}
	}
	return environ
}

func TestDefaultsAreThoseOfTheManual(t *testing.T) {
	c := parse(t, nil, "--token=t", "--redis-url=memory:")
	want := Config{
		Port: 8080, RedisURL: "memory:", KeyPrefix: "pb", Buckets: 16, ColdStart: "on", Token: "t",
		LeaseTTL: 15 * time.Second, Affinity: affinity(t, "ip"), BalanceFactor: 1.25, RestateAfter: 10000,
		TrustedProxies: c.TrustedProxies, WorkerMaxConns: 1024,
		ConnectTimeout: 2 * time.Second, ResponseTimeout: 300 * time.Second, PoolIdle: 4 * time.Second,
		HalfCloseGrace: time.Second, ShutdownNotice: 8 * time.Second, ShutdownBudget: 25 * time.Second,
		LogLevel: "info", LogFormat: "auto",
	}
	if !reflect.DeepEqual(*c, want) {
		t.Errorf("defaults\n%+v\nwant\n%+v", *c, want)
	}
	if got := fmt.Sprint(c.TrustedProxies); got != "[10.0.0.0/8 172.16.0.0/12 192.168.0.0/16 fc00::/7]" {
		t.Errorf("trusted by default: %s", got)
	}
}

func TestFlagWinsOverVariable(t *testing.T) {
	vars := map[string]string{"PORT": "1", "PINBOARD_LEASE_TTL_MS": "9000", "PINBOARD_TOKEN": "t",
		"PINBOARD_HOSTNAME_AWARE": "1", "PINBOARD_AFFINITY": "cookie:sid", "PINBOARD_TRUSTED_PROXIES": "none",
		"PINBOARD_CORS_ORIGINS": "https://a.example,http://b.example:8080", "PINBOARD_ADVERTISE_ALLOW": "10.1.2.3, 10.9.0.0/16",
		"REDIS_URL": "memory:"}
	c := parse(t, vars, "--port=2", "--affinity", "header:X-User")
	if c.Port != 2 || c.LeaseTTL != 9*time.Second || !c.HostnameAware || c.Affinity != affinity(t, "header:X-User") || c.RedisURL != "memory:" {
		t.Errorf("%+v", c)
	}
	if c.TrustedProxies == nil || len(c.TrustedProxies) != 0 {
		t.Errorf("none trusts %v", c.TrustedProxies)
	}
	vars["PINBOARD_TRUSTED_PROXIES"] = "loopback, private,9.0.0.0/8"
	if got := fmt.Sprint(parse(t, vars).TrustedProxies); got != "[127.0.0.0/8 ::1/128 10.0.0.0/8 172.16.0.0/12 192.168.0.0/16 fc00::/7 9.0.0.0/8]" {
		t.Errorf("trusted: %s", got)
	}
	if got := fmt.Sprint(c.AdvertiseAllow, c.CORSOrigins); got != "[10.1.2.3/32 10.9.0.0/16] [https://a.example http://b.example:8080]" {
		t.Error(got)
	}
}

func affinity(t *testing.T, text string) (a Affinity) {
	t.Helper()
	if err := a.UnmarshalText([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return a
}

func parse(t *testing.T, vars map[string]string, args ...string) *Config {
	t.Helper()
	var c cli
	var e env
	for name, v := range vars {
		e.environ = append(e.environ, name+"="+v)
	}
	parser, err := newParser(&c, e)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parser.Parse(append([]string{"serve"}, args...)); err != nil {
		t.Fatal(err)
	}
	if err := c.Serve.check(); err != nil {
		t.Fatal(err)
	}
	return &c.Serve.Config
}

// Every setting is a variable and a flag of the same name, documented.
func TestEverySettingIsVariableAndFlag(t *testing.T) {
	for _, f := range settings(t) {
		name := strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(f.Tag.Get("var"), "PINBOARD_"), "_", "-"))
		if f.Name != name {
			t.Errorf("%s has the flag --%s, want --%s", f.Tag.Get("var"), f.Name, name)
		}
		if !strings.HasSuffix(f.Help, ".") || f.Group == nil {
			t.Errorf("%s is not documented", f.Tag.Get("var"))
		}
	}
}

func settings(t *testing.T) []*kong.Flag {
	t.Helper()
	parser, err := newParser(&cli{}, env{})
	if err != nil {
		t.Fatal(err)
	}
	var list []*kong.Flag
	for _, f := range command(parser, "serve").Flags {
		if f.Name != "help" {
			list = append(list, f)
		}
	}
	if len(list) < 25 {
		t.Fatalf("%d settings", len(list))
	}
	return list
}

func command(parser *kong.Kong, name string) *kong.Node {
	for _, c := range parser.Model.Children {
		if c.Name == name {
			return c
		}
	}
	return nil
}

// The README's table is this struct.
func TestReadmeTable(t *testing.T) {
	const begin, end = "<!-- settings: go test ./cmd/pinboard -update -->\n", "<!-- end of settings -->\n"
	var b strings.Builder
	b.WriteString(begin + "| Variable | Default | Meaning |\n|---|---|---|\n")
	for _, f := range settings(t) {
		value := ""
		if f.HasDefault {
			value = "`" + f.Default + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", f.Tag.Get("var"), value, strings.ReplaceAll(f.Help, "|", `\|`))
	}
	table := b.String() + end
	const readme = "../../README.md"
	text, err := os.ReadFile(readme)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok1 := strings.Cut(string(text), begin)
	_, tail, ok2 := strings.Cut(rest, end)
	if !ok1 || !ok2 {
		t.Fatal("README.md has lost the marks of the table")
	}
	want := head + table + tail
	if *update {
		if err := os.WriteFile(readme, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if string(text) != want {
		t.Error("README.md differs from Config: go test ./cmd/pinboard -update")
	}
}

func TestATypoInASettingShows(t *testing.T) {
	got := strays([]string{"HOME=/", "PINBOARD_LEASE_TTL=1", "PINBOARD_LEASE_TTL_MS=8000", "PINBOARD_=", "XPINBOARD_A=1",
		"PINBOARD_PORT=8080", "PINBOARD_NAME=x", "PINBOARD_SERVICE=x"})
	want := []string{"PINBOARD_", "PINBOARD_LEASE_TTL", "PINBOARD_NAME", "PINBOARD_PORT", "PINBOARD_SERVICE"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// What Kubernetes and Docker put into containers beside a service called
// pinboard, or pinboard-something, is no typo.
func TestVariablesOfThePlatformAreKnown(t *testing.T) {
	for _, v := range []string{
		"PINBOARD_PORT=tcp://10.0.0.1:80", "PINBOARD_SERVICE_HOST=10.0.0.1", "PINBOARD_SERVICE_PORT=80", "PINBOARD_SERVICE_PORT_HTTP=80",
		"PINBOARD_PORT_80_TCP=tcp://10.0.0.1:80", "PINBOARD_PORT_80_TCP_PROTO=tcp", "PINBOARD_PORT_8080_TCP_PORT=8080", "PINBOARD_PORT_8080_TCP_ADDR=10.0.0.1",
		"PINBOARD_PORT_53_UDP_ADDR=10.0.0.1", "PINBOARD_METRICS_SERVICE_HOST=10.0.0.2", "PINBOARD_METRICS_PORT=tcp://10.0.0.2:9090",
		"PINBOARD_METRICS_PORT_9090_TCP_ADDR=10.0.0.2", "PINBOARD_NAME=/app/pinboard", "PINBOARD_ENV_PATH=/bin",
	} {
		if got := strays([]string{v}); len(got) > 0 {
			t.Errorf("%s is called an unknown setting", v)
		}
	}
}

// A bare name is that of a systemd credential where there are some.
func TestPassportCredential(t *testing.T) {
	for _, tt := range []struct{ passport, directory, want string }{
		{"@passport", "/run/credentials/pinboard.service", "@/run/credentials/pinboard.service/passport"},
		{"@passport", "", "@passport"},
		{"@/etc/passport", "/run/credentials/pinboard.service", "@/etc/passport"},
		{"@./passport", "/run/credentials/pinboard.service", "@./passport"},
		{"{}", "/run/credentials/pinboard.service", "{}"},
		{"", "/run/credentials/pinboard.service", ""},
	} {
		c := Config{Passport: tt.passport}
		if got := c.passport(tt.directory); got != tt.want {
			t.Errorf("%q in %q is %q, want %q", tt.passport, tt.directory, got, tt.want)
		}
	}
}
