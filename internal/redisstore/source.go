package redisstore

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"reflect"
	"strings"
	"sync"
)

// A source knows how to sign in. Everything that it has from files (the URL
// itself, passwords, certificates) is read again for each connection, so that
// who rotates a secret replaces a file and restarts nothing. Which servers hold
// the store never changes while the process lives: nodes that followed a
// changed address one after the other would own ids in two stores at once.
type source struct {
	file string // of the URL; "" when it was given itself
	warn func(text string)

	mu   sync.Mutex
	last [2]*login // what worked out last, for servers and for sentinels
	now  *target   // the URL as last read; its servers are those of Open
	said string    // the last warning
}

// A login is what one connection needs.
type login struct {
	user, password string
	tls            *tls.Config // nil without TLS; without a server name unless one is configured
}

// role says who is signed in to.
type role int

const (
	toServers role = iota
	toSentinels
)

// openSource reads everything once; an error is the operator's to mend.
func openSource(opt *Options) (*source, error) {
	s := &source{file: opt.URLFile, warn: opt.Warn}
	if s.warn == nil {
		s.warn = func(string) {}
	}
	t, err := firstTarget(opt)
	if err != nil {
		return nil, err
	}
	s.now = t
	for _, r := range []role{toServers, toSentinels} {
		if s.last[r], err = t.signIn(r); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func firstTarget(opt *Options) (*target, error) {
	switch {
	case opt.URL != "" && opt.URLFile != "":
		return nil, errors.New("a store URL and a file for it are both given")
	case opt.URLFile == "":
		return parseURL(opt.URL)
	}
	return readTarget(opt.URLFile)
}

// Check reports what is wrong with a store URL, or with the file that holds
// it, and with the files it names, without connecting. Its text is one line.
func Check(url, file string) error {
	_, err := openSource(&Options{URL: url, URLFile: file})
	return err
}

// byFile reports whether a rejected password may be one that is being rotated.
func (s *source) byFile() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.file != "" || s.now.login.passwordFile != "" || s.now.watchers.passwordFile != ""
}

// login is how to sign in now. What cannot be read or used is warned of once,
// and what was good last goes on: a file may be on its way.
func (s *source) login(r role) *login {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, err := s.read(r)
	if err != nil {
		if s.said != err.Error() {
			s.said = err.Error()
			s.warn(s.said)
		}
		return s.last[r]
	}
	s.said, s.last[r] = "", l
	return l
}

func (s *source) read(r role) (*login, error) {
	if s.file != "" {
		t, err := readTarget(s.file)
		if err != nil {
			return nil, err
		}
		if !sameServers(t, s.now) {
			return nil, errors.New("the file of the store URL names another store: a node changes its store only by a restart, of all nodes together")
		}
		s.now = t
	}
	return s.now.signIn(r)
}

func sameServers(a, b *target) bool {
	return reflect.DeepEqual(a.addrs, b.addrs) && a.cluster == b.cluster && a.master == b.master && a.db == b.db
}

// secretSize and pemSize bound what is read of a file.
const (
	secretSize = 1 << 14
	pemSize    = 1 << 20
)

func readTarget(file string) (*target, error) {
	text, err := readFile("store URL", file, secretSize)
	if err != nil {
		return nil, err
	}
	return parseURL(strings.TrimSpace(string(text)))
}

// signIn reads the files that t names.
func (t *target) signIn(r role) (*login, error) {
	a, option := t.login, "password_file"
	if r == toSentinels {
		a, option = t.watchers, "sentinel_password_file"
	}
	l := &login{user: a.user, password: a.password}
	if a.passwordFile != "" {
		text, err := readFile(option, a.passwordFile, secretSize)
		if err != nil {
			return nil, err
		}
		if l.password = strings.TrimRight(string(text), "\r\n"); l.password == "" {
			return nil, fmt.Errorf("%s: %s is empty", option, a.passwordFile)
		}
	}
	if !t.tls {
		return l, nil
	}
	l.tls = &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.files.servername}
	if err := t.files.trust(l.tls); err != nil {
		return nil, err
	}
	return l, t.files.identify(l.tls)
}

func (f *tlsFiles) trust(c *tls.Config) error {
	if f.ca == "" {
		return nil
	}
	pem, err := readFile("ca", f.ca, pemSize)
	if err != nil {
		return err
	}
	c.RootCAs = x509.NewCertPool()
	if !c.RootCAs.AppendCertsFromPEM(pem) {
		return fmt.Errorf("ca: no certificate in %s", f.ca)
	}
	return nil
}

// identify adds the client's certificate; its key may stand in the same file.
func (f *tlsFiles) identify(c *tls.Config) error {
	if f.cert == "" {
		return nil
	}
	cert, err := readFile("cert", f.cert, pemSize)
	if err != nil {
		return err
	}
	key := cert
	if f.key != "" {
		if key, err = readFile("key", f.key, pemSize); err != nil {
			return err
		}
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return fmt.Errorf("cert: %s and its key do not belong together or are no PEM", f.cert)
	}
	c.Certificates = []tls.Certificate{pair}
	return nil
}

// readFile names the file in its errors: a path is no secret.
func readFile(what, path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, limit+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", what, err)
	case int64(len(text)) > limit:
		return nil, fmt.Errorf("%s: %s is larger than %d bytes", what, path, limit)
	}
	return text, nil
}

// to is the TLS configuration for one address, nil without TLS.
func (l *login) to(addr string) *tls.Config {
	if l.tls == nil {
		return nil
	}
	c := l.tls.Clone()
	if c.ServerName == "" {
		c.ServerName, _, _ = net.SplitHostPort(addr)
	}
	return c
}
