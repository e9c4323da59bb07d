package passport

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// Bounds of an issuer's keys. Tokens of strangers can cause a load, so loads
// are few and small.
const (
	refreshAfter = 5 * time.Minute  // a key that the issuer withdrew is trusted about as long
	retryAfter   = 10 * time.Second // from one load to the next, whatever comes
	loadTimeout  = 3 * time.Second
	maxKeySet    = 256 << 10
	maxKeys      = 100
	minRSABits   = 2048
)

// A keyring is the cached public keys of one issuer. While they cannot be
// loaded again, those that were loaded last go on.
type keyring struct {
	where string // a URL, or "@" and a path
	load  func(ctx context.Context) ([]byte, error)
	now   func() time.Time

	mu      sync.Mutex
	keys    []jose.JSONWebKey
	loaded  time.Time // of keys
	tried   time.Time
	failure error         // of the last try
	busy    chan struct{} // non-nil while a load is under way
	told    func(error)   // of each try whose outcome differs from the one before
}

func newKeyring(where string, now func() time.Time) (*keyring, error) {
	k := &keyring{where: where, now: now}
	if path, isFile := strings.CutPrefix(where, "@"); isFile {
		k.load = func(context.Context) ([]byte, error) { return readKeyFile(path) }
		return k, nil
	}
	u, err := url.Parse(where)
	switch {
	case err != nil || u.Host == "" || u.User != nil || u.Fragment != "" || u.Scheme != "https" && u.Scheme != "http":
		return nil, errors.New("want an https URL without user and fragment, or @ and a path")
	case u.Scheme == "http" && !loopback(u.Hostname()):
		return nil, errors.New("want https: plain http is for loopback only")
	}
	client := keyClient(u.Scheme == "http")
	k.load = func(ctx context.Context) ([]byte, error) { return fetchKeys(ctx, client, where) }
	return k, nil
}

func loopback(host string) bool {
	a, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && a.IsLoopback()
}

// find lists the keys for an algorithm and a key id; without an id there must
// be only one. It waits for a load that could bring what is missing, unless
// there was one a moment ago.
func (k *keyring) find(alg jose.SignatureAlgorithm, id string) []jose.JSONWebKey {
	k.mu.Lock()
	found, age := k.match(alg, id), k.now().Sub(k.loaded)
	if len(found) == 0 || age > refreshAfter {
		k.begin()
	}
	busy := k.busy
	wait := len(found) == 0 || age > 2*refreshAfter && k.failure == nil
	k.mu.Unlock()
	if busy == nil || !wait {
		return found
	}
	<-busy
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.match(alg, id)
}

func (k *keyring) match(alg jose.SignatureAlgorithm, id string) (found []jose.JSONWebKey) {
	for _, key := range k.keys {
		if (id == "" || key.KeyID == id) && (key.Algorithm == "" || key.Algorithm == string(alg)) && fits(alg, key.Key) {
			found = append(found, key)
		}
	}
	if id == "" && len(found) > 1 {
		return nil
	}
	return found
}

// fits binds each algorithm to its one kind of key.
func fits(alg jose.SignatureAlgorithm, key any) bool {
	switch key := key.(type) {
	case *rsa.PublicKey:
		return strings.HasPrefix(string(alg), "RS") || strings.HasPrefix(string(alg), "PS")
	case *ecdsa.PublicKey:
		return map[jose.SignatureAlgorithm]elliptic.Curve{
			jose.ES256: elliptic.P256(), jose.ES384: elliptic.P384(), jose.ES512: elliptic.P521(),
		}[alg] == key.Curve
	case ed25519.PublicKey:
		return alg == jose.EdDSA
	}
	return false
}

// begin starts a load unless one is under way or was a moment ago; k.mu is held.
func (k *keyring) begin() {
	if k.busy != nil || k.now().Sub(k.tried) < retryAfter {
		return
	}
	k.tried, k.busy = k.now(), make(chan struct{})
	go k.refresh(k.busy)
}

// tell names who hears of outcomes that change.
func (k *keyring) tell(told func(error)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.told = told
}

// reload is a load because the operator asked for one.
func (k *keyring) reload() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.tried = time.Time{}
	k.begin()
}

func (k *keyring) refresh(done chan struct{}) {
	defer close(done)
	err := k.take()
	k.mu.Lock()
	k.busy = nil
	changed := (err == nil) != (k.failure == nil) || err != nil && err.Error() != k.failure.Error()
	k.failure = err
	told := k.told
	k.mu.Unlock()
	if changed && told != nil {
		told(err)
	}
}

// take loads the keys once.
func (k *keyring) take() error {
	ctx, cancel := context.WithTimeout(context.Background(), loadTimeout)
	defer cancel()
	begun := k.now()
	text, err := k.load(ctx)
	if err != nil {
		return err
	}
	keys, err := parseKeys(text)
	if err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.keys, k.loaded = keys, begun
	return nil
}

// parseKeys reads a JWK set (RFC 7517). Keys of unknown kinds, private and
// symmetric ones, and those for encryption are left out; so one bad key does
// not shut out the others.
func parseKeys(text []byte) ([]jose.JSONWebKey, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(text, &set); err != nil || len(set.Keys) > maxKeys {
		return nil, fmt.Errorf("not a JWK set of at most %d keys", maxKeys)
	}
	var list []jose.JSONWebKey
	for _, raw := range set.Keys {
		var key jose.JSONWebKey
		if key.UnmarshalJSON(raw) != nil || !key.Valid() || !key.IsPublic() || key.Use != "" && key.Use != "sig" {
			continue
		}
		if r, ok := key.Key.(*rsa.PublicKey); ok && r.N.BitLen() < minRSABits {
			continue
		}
		list = append(list, key)
	}
	if len(list) == 0 {
		return nil, errors.New("the JWK set has no public key for signatures")
	}
	return list, nil
}

func readKeyFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, errors.New(reason(err))
	}
	defer f.Close()
	return bounded(f)
}

func bounded(r io.Reader) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxKeySet+1))
	switch {
	case err != nil:
		return nil, errors.New("the JWK set cannot be read")
	case len(text) > maxKeySet:
		return nil, fmt.Errorf("the JWK set is larger than %d bytes", maxKeySet)
	}
	return text, nil
}

// keyClient goes where the operator said and nowhere else: no proxy, no
// redirect, and plain http never leaves the machine.
func keyClient(plain bool) *http.Client {
	d := &net.Dialer{Timeout: loadTimeout}
	if plain {
		d.Control = func(_, address string, _ syscall.RawConn) error {
			if a, err := netip.ParseAddrPort(address); err != nil || !a.Addr().Unmap().IsLoopback() {
				return errors.New("plain http to another machine")
			}
			return nil
		}
	}
	return &http.Client{
		Transport:     &http.Transport{DialContext: d.DialContext, DisableKeepAlives: true, MaxResponseHeaderBytes: 64 << 10},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

func fetchKeys(ctx context.Context, client *http.Client, where string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, where, nil)
	if err != nil {
		return nil, err
	}
	res, err := client.Do(req)
	var whole *url.Error
	switch {
	case errors.As(err, &whole): // its text has the URL
		return nil, whole.Err
	case err != nil:
		return nil, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the issuer answers %d for its keys", res.StatusCode)
	}
	return bounded(res.Body)
}
