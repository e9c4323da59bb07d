package redisstore

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
)

// A target is a parsed Options.URL.
type target struct {
	addrs    []string
	cluster  bool
	master   string // sentinel: name of the primary
	user     string
	password string
	db       int
	sentinel struct{ user, password string }
	tls      *tls.Config
}

// ParseURL reports what is wrong with a store URL, without its secrets.
func ParseURL(s string) error {
	_, err := parseURL(s)
	return err
}

func parseURL(s string) (*target, error) {
	scheme, rest, ok := strings.Cut(s, "://")
	if !ok {
		return nil, fmt.Errorf("store URL: want redis://, rediss://, redis+sentinel:// or redis+cluster://")
	}
	t := &target{}
	base, kind, _ := strings.Cut(scheme, "+")
	switch {
	case base == "rediss":
		t.tls = &tls.Config{MinVersion: tls.VersionTLS12}
	case base != "redis":
		return nil, fmt.Errorf("store URL: unknown scheme %q", scheme)
	}
	if kind != "" && kind != "sentinel" && kind != "cluster" {
		return nil, fmt.Errorf("store URL: unknown scheme %q", scheme)
	}
	t.cluster = kind == "cluster"
	rest, query, _ := strings.Cut(rest, "?")
	authority, path, _ := strings.Cut(rest, "/")
	if err := t.authority(authority, kind == "sentinel"); err != nil {
		return nil, err
	}
	if err := t.database(path); err != nil {
		return nil, err
	}
	return t, t.parameters(query, kind == "sentinel")
}

func (t *target) authority(s string, sentinel bool) error {
	if i := strings.LastIndexByte(s, '@'); i >= 0 {
		user, password, _ := strings.Cut(s[:i], ":")
		var err1, err2 error
		t.user, err1 = url.PathUnescape(user)
		t.password, err2 = url.PathUnescape(password)
		if err1 != nil || err2 != nil {
			return fmt.Errorf("store URL: user or password is not percent-encoded")
		}
		s = s[i+1:]
	}
	port := "6379"
	if sentinel {
		port = "26379"
	}
	for _, a := range strings.Split(s, ",") {
		host, p, err := net.SplitHostPort(a)
		if err != nil {
			host, p = strings.Trim(a, "[]"), port
		}
		if n, err := strconv.Atoi(p); host == "" || err != nil || n < 1 || n > 65535 {
			return fmt.Errorf("store URL: %q is not host:port", a)
		}
		t.addrs = append(t.addrs, net.JoinHostPort(host, p))
	}
	return nil
}

func (t *target) database(path string) error {
	if path == "" {
		return nil
	}
	n, err := strconv.Atoi(path)
	if err != nil || n < 0 {
		return fmt.Errorf("store URL: %q is not a database number", path)
	}
	if t.cluster && n != 0 {
		return fmt.Errorf("store URL: a cluster has only database 0")
	}
	t.db = n
	return nil
}

func (t *target) parameters(query string, sentinel bool) error {
	q, err := url.ParseQuery(query)
	if err != nil {
		return fmt.Errorf("store URL: malformed parameters")
	}
	for name := range q {
		v := q.Get(name)
		switch {
		case name == "master" && sentinel:
			t.master = v
		case name == "sentinel_user" && sentinel:
			t.sentinel.user = v
		case name == "sentinel_password" && sentinel:
			t.sentinel.password = v
		case name == "ca" && t.tls != nil:
			if err := t.trust(v); err != nil {
				return err
			}
		case name == "servername" && t.tls != nil:
			t.tls.ServerName = v
		default:
			return fmt.Errorf("store URL: unknown parameter %q", name)
		}
	}
	if sentinel && t.master == "" {
		return fmt.Errorf("store URL: redis+sentinel:// needs ?master=NAME")
	}
	return nil
}

func (t *target) trust(file string) error {
	pem, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("store URL: ca: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return fmt.Errorf("store URL: ca: no certificate in %s", file)
	}
	t.tls.RootCAs = pool
	return nil
}

// dialTLS is the configuration for one address.
func (t *target) dialTLS(addr string) *tls.Config {
	if t.tls == nil {
		return nil
	}
	c := t.tls.Clone()
	if c.ServerName == "" {
		c.ServerName, _, _ = net.SplitHostPort(addr)
	}
	return c
}
