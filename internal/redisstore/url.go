package redisstore

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
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

// ParseURL reports what is wrong with a store URL. It quotes no part of it: a
// password that is not percent-encoded can end up in any of them.
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
		return nil, errors.New("store URL: unknown scheme: want redis, rediss, redis+sentinel or redis+cluster, rediss+... with TLS")
	}
	if kind != "" && kind != "sentinel" && kind != "cluster" {
		return nil, errors.New("store URL: unknown scheme: want redis, rediss, redis+sentinel or redis+cluster, rediss+... with TLS")
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
			return errors.New("store URL: want host:port behind the scheme; / ? # @ in a user or password must be percent-encoded")
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
		return errors.New("store URL: want a database number behind the host; / ? # @ in a user or password must be percent-encoded")
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
			return errors.New("store URL: unknown parameter: redis+sentinel:// knows master, sentinel_user, sentinel_password; rediss knows ca, servername")
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
		return errors.New("store URL: ca: the file cannot be read")
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return errors.New("store URL: ca: no certificate in the file")
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
