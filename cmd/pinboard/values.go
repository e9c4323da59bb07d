package main

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"pinboard"
	"pinboard/internal/proxy"
	"pinboard/internal/redisstore"
)

// Limits of values, each because something breaks beyond it.
const (
	minLease      = pinboard.ShortestLease
	realLease     = 8 * time.Second  // buffer 5 s + beat 3 s of the real client
	maxLease      = 10 * time.Minute // cold starts and dead workers' ids wait this long
	maxBuckets    = 1024             // every beat writes its lease to every bucket
	maxPoolIdle   = time.Minute
	maxMillis     = int64(24 * time.Hour / time.Millisecond)
	maxKeyPrefix  = 64
	maxCORSOrigin = 256
)

// decodeMillis reads a whole number of milliseconds.
func decodeMillis(ctx *kong.DecodeContext, target reflect.Value) error {
	var s string
	if err := ctx.Scan.PopValueInto("milliseconds", &s); err != nil {
		return err
	}
	n, err := strconv.ParseInt(s, 10, 64)
	switch {
	case err != nil || n < 0:
		return fmt.Errorf("want a whole number of milliseconds, got %q", s)
	case n > maxMillis:
		return fmt.Errorf("want at most %d milliseconds, got %q", maxMillis, s)
	}
	target.SetInt(int64(time.Duration(n) * time.Millisecond))
	return nil
}

// UnmarshalText reads a comma-separated list of CIDRs or addresses.
func (p *Prefixes) UnmarshalText(text []byte) error {
	list, err := parsePrefixes(string(text))
	*p = list
	return err
}

// trustedWords stand for networks in a list of trusted proxies.
var trustedWords = strings.NewReplacer(
	"private", "10.0.0.0/8,172.16.0.0/12,192.168.0.0/16,fc00::/7",
	"loopback", "127.0.0.0/8,::1/128",
)

// UnmarshalText reads what Prefixes reads with "private" and "loopback" among
// its entries, or "none".
func (p *TrustedProxies) UnmarshalText(text []byte) error {
	s := strings.TrimSpace(string(text))
	if s == "none" {
		*p = TrustedProxies{}
		return nil
	}
	list, err := parsePrefixes(trustedWords.Replace(s))
	*p = list
	return err
}

func parsePrefixes(s string) ([]netip.Prefix, error) {
	var list []netip.Prefix
	for part := range strings.SplitSeq(s, ",") {
		part = strings.TrimSpace(part)
		p, err := netip.ParsePrefix(part)
		if err != nil {
			a, err := netip.ParseAddr(part)
			if err != nil || a.Zone() != "" {
				return nil, fmt.Errorf("want a comma-separated list of CIDRs, got %q", part)
			}
			p = netip.PrefixFrom(a, a.BitLen())
		}
		list = append(list, p.Masked())
	}
	return list, nil
}

// UnmarshalText reads ip, none, header:Name, cookie:name or query:name.
func (a *Affinity) UnmarshalText(text []byte) (err error) {
	if _, name, ok := strings.Cut(string(text), ":"); ok && !token(name) {
		return fmt.Errorf("want a name behind the colon, got %q", text)
	}
	a.Affinity, err = proxy.ParseAffinity(string(text))
	return err
}

// token reports whether s is an RFC 9110 token, the grammar of field and
// cookie names.
func token(s string) bool {
	for _, c := range s {
		if c <= ' ' || c >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, c) {
			return false
		}
	}
	return s != ""
}

// check judges what one value alone cannot: ranges and combinations. The
// first fault found is the answer; secrets are never in it.
func (c *Config) check() error {
	for _, f := range []func() error{c.checkStore, c.checkIdentity, c.checkRanges, c.checkForwarding} {
		if err := f(); err != nil {
			return usageError{err.Error()}
		}
	}
	return nil
}

func (c *Config) checkIdentity() error {
	switch {
	case c.Token == "" && c.Passport == "":
		return errors.New("PINBOARD_TOKEN is required (or PINBOARD_PASSPORT)")
	case c.Token != "" && strings.TrimSpace(c.Token) == "":
		return errors.New("PINBOARD_TOKEN is blank")
	case strings.ContainsFunc(c.Token, func(r rune) bool { return r <= ' ' || r >= 0x7f }):
		return errors.New("PINBOARD_TOKEN must be visible ASCII without spaces: it travels in a header")
	case c.Passport != "" && strings.TrimSpace(c.Passport) == "":
		return errors.New("PINBOARD_PASSPORT is blank")
	}
	return nil
}

// credentials is the directory of secrets that systemd gives to a service.
const credentials = "CREDENTIALS_DIRECTORY"

// passport is the passport as configured; a bare file name is that of a
// credential where the service has some.
func (c *Config) passport(credentials string) string {
	name, isFile := strings.CutPrefix(c.Passport, "@")
	if credentials == "" || !isFile || strings.ContainsRune(name, '/') {
		return c.Passport
	}
	return "@" + filepath.Join(credentials, name)
}

// memory reports whether the node runs alone on the in-process store.
func (c *Config) memory() bool { return c.RedisURL == "memory:" && c.RedisURLFile == "" }

// storeURL is the URL of the store unless a file holds it.
func (c *Config) storeURL() string {
	if c.RedisURLFile != "" {
		return ""
	}
	return c.RedisURL
}

// storeVariable names the setting that an error of the store is about.
func (c *Config) storeVariable() string {
	if c.RedisURLFile != "" {
		return "REDIS_URL_FILE"
	}
	return "REDIS_URL"
}

func (c *Config) checkStore() error {
	if c.RedisURL == "" && c.RedisURLFile == "" { // never a store of its own by default: two such nodes would each own every id
		return errors.New("REDIS_URL is required (or REDIS_URL_FILE): REDIS_URL=redis://host:6379 for nodes that share a store, REDIS_URL=memory: for one node alone (pinboard dev is the quick start)")
	}
	if !c.memory() {
		if c.RedisURLFile != "" && c.RedisURL != "" {
			return errors.New("REDIS_URL and REDIS_URL_FILE are both given")
		}
		if err := redisstore.Check(c.storeURL(), c.RedisURLFile); err != nil {
			return fmt.Errorf("%s: %w", c.storeVariable(), err)
		}
		if c.ColdStart == "off" {
			return errors.New("PINBOARD_COLD_START=off is for REDIS_URL=memory: only: on a shared store it could place an id twice")
		}
	}
	if c.RequireSafeStore && c.memory() {
		return errors.New("PINBOARD_REQUIRE_SAFE_STORE needs a replicated Redis, not memory: (REDIS_URL)")
	}
	if c.KeyPrefix == "" || len(c.KeyPrefix) > maxKeyPrefix || !token(c.KeyPrefix) || strings.Contains(c.KeyPrefix, "%") {
		return fmt.Errorf("PINBOARD_KEY_PREFIX: want 1 to %d visible characters without separators and braces, got %q", maxKeyPrefix, c.KeyPrefix)
	}
	return nil
}

func (c *Config) checkRanges() error {
	switch {
	case c.Port < 0 || c.Port > 65535:
		return fmt.Errorf("PORT: want 0 to 65535, got %d", c.Port)
	case c.Buckets < 1 || c.Buckets > maxBuckets:
		return fmt.Errorf("PINBOARD_BUCKETS: want 1 to %d, got %d", maxBuckets, c.Buckets)
	case c.LeaseTTL < minLease || c.LeaseTTL > maxLease:
		return fmt.Errorf("PINBOARD_LEASE_TTL_MS: want %d to %d, got %d", minLease.Milliseconds(), maxLease.Milliseconds(), c.LeaseTTL.Milliseconds())
	case !(c.PlaceRate >= 0 && c.PlaceRate <= 1e6): // refuses NaN too
		return fmt.Errorf("PINBOARD_PLACE_RATE: want 0 to 1000000, got %v", c.PlaceRate)
	case !(c.BalanceFactor >= 1 && c.BalanceFactor <= 1000): // refuses NaN too
		return fmt.Errorf("PINBOARD_BALANCE_FACTOR: want 1 to 1000, got %v", c.BalanceFactor)
	case c.RestateAfter < 1:
		return fmt.Errorf("PINBOARD_RESTATE_AFTER: want at least 1, got %d", c.RestateAfter)
	case c.ShutdownNotice > c.ShutdownBudget:
		return fmt.Errorf("PINBOARD_SHUTDOWN_NOTICE_MS (%d) exceeds PINBOARD_SHUTDOWN_BUDGET_MS (%d), which includes it", c.ShutdownNotice.Milliseconds(), c.ShutdownBudget.Milliseconds())
	}
	return nil
}

func (c *Config) checkForwarding() error {
	switch {
	case c.WorkerMaxConns < 1:
		return fmt.Errorf("PINBOARD_WORKER_MAX_CONNS: want at least 1, got %d", c.WorkerMaxConns)
	case c.InstanceMax < 0 || c.InstanceMax > c.WorkerMaxConns:
		return fmt.Errorf("PINBOARD_INSTANCE_MAX_CONNS: want 0 to %d (PINBOARD_WORKER_MAX_CONNS), got %d", c.WorkerMaxConns, c.InstanceMax)
	case c.ConnectTimeout == 0:
		return errors.New("PINBOARD_CONNECT_TIMEOUT_MS: want at least 1, got 0")
	case c.HalfCloseGrace == 0:
		return errors.New("PINBOARD_HALF_CLOSE_GRACE_MS: want at least 1, got 0")
	case c.PoolIdle == 0 || c.PoolIdle > maxPoolIdle:
		return fmt.Errorf("PINBOARD_POOL_IDLE_MS: want 1 to %d, got %d", maxPoolIdle.Milliseconds(), c.PoolIdle.Milliseconds())
	}
	for i, origin := range c.CORSOrigins {
		u, err := url.Parse(origin)
		if err != nil || origin != "*" && (u.Scheme+"://"+u.Host != origin || u.Host == "") || len(origin) > maxCORSOrigin {
			return fmt.Errorf("PINBOARD_CORS_ORIGINS: want scheme://host[:port] or * (entry %d)", i+1)
		}
	}
	return nil
}
