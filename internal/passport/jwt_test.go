package passport

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// An idp is an issuer of tokens with its key set at a URL.
type idp struct {
	t      *testing.T
	url    string
	mu     sync.Mutex
	public []any // what the set holds
	down   atomic.Bool
	loads  atomic.Int64
	clock  atomic.Int64 // seconds that the node's clock is ahead
}

func newIDP(t *testing.T) *idp {
	i := &idp{t: t}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		i.loads.Add(1)
		if i.down.Load() {
			w.WriteHeader(500)
			return
		}
		i.mu.Lock()
		defer i.mu.Unlock()
		json.NewEncoder(w).Encode(map[string]any{"keys": i.public})
	}))
	t.Cleanup(s.Close)
	i.url = s.URL
	return i
}

func (i *idp) publish(keys ...any) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.public = keys
}

func (i *idp) now() time.Time { return time.Now().Add(time.Duration(i.clock.Load()) * time.Second) }

// open is a passport with this issuer.
func (i *idp) open(more string) *Source {
	i.t.Helper()
	s, err := open("", fmt.Sprintf(`{"providers":[{"type":"jwt","id":"idp","issuer":"https://idp.example","audience":"pinboard","jwks":%q%s}]}`, i.url, more), i.now)
	if err != nil {
		i.t.Fatal(err)
	}
	return s
}

// A pair signs; its public half can be published.
type pair struct {
	alg     jose.SignatureAlgorithm
	kid     string
	private crypto.Signer
}

var keyCache = map[string]crypto.Signer{}

func newPair(t *testing.T, alg jose.SignatureAlgorithm, kid string) pair {
	t.Helper()
	kind := string(alg) + kid
	if k := keyCache[kind]; k != nil {
		return pair{alg, kid, k}
	}
	var k crypto.Signer
	var err error
	switch alg {
	case jose.ES256:
		k, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case jose.ES384:
		k, err = ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	case jose.ES512:
		k, err = ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
	case jose.EdDSA:
		_, k, err = ed25519.GenerateKey(rand.Reader)
	default:
		k, err = rsa.GenerateKey(rand.Reader, 2048)
	}
	if err != nil {
		t.Fatal(err)
	}
	keyCache[kind] = k
	return pair{alg, kid, k}
}

func (p pair) jwk() jose.JSONWebKey {
	return jose.JSONWebKey{Key: p.private.Public(), KeyID: p.kid, Use: "sig", Algorithm: string(p.alg)}
}

// sign makes a token of claims with these headers besides alg and kid.
func (p pair) sign(t *testing.T, claims map[string]any, headers ...any) string {
	t.Helper()
	opt := (&jose.SignerOptions{}).WithType("JWT")
	for i := 0; i < len(headers); i += 2 {
		opt.WithHeader(jose.HeaderKey(headers[i].(string)), headers[i+1])
	}
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: p.alg, Key: jose.JSONWebKey{Key: p.private, KeyID: p.kid}}, opt)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := s.Sign(text)
	if err != nil {
		t.Fatal(err)
	}
	token, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// with is a good token's claims, changed; a nil value removes one.
func with(changes ...any) map[string]any {
	now := time.Now().Unix()
	c := map[string]any{
		"iss": "https://idp.example", "sub": "worker-7", "aud": "pinboard", "iat": now, "exp": now + 60, "scope": "openid pinboard:worker",
		"pinboard": map[string]any{"namespaces": []string{"/a"}, "allowedBackendHosts": []string{"W1.internal"}},
	}
	for i := 0; i < len(changes); i += 2 {
		name := changes[i].(string)
		if c[name] = changes[i+1]; changes[i+1] == nil {
			delete(c, name)
		}
	}
	return c
}

func opens(s *Source, token string) *Principal {
	p, ok := s.Authenticate([]string{"Bearer " + token})
	if ok != (p != nil) {
		panic("a principal without a yes")
	}
	return p
}

// Each kind of key that an issuer may use signs a worker in.
func TestSignedTokens(t *testing.T) {
	for _, alg := range asymmetric {
		t.Run(string(alg), func(t *testing.T) {
			i, k := newIDP(t), newPair(t, alg, "k1")
			i.publish(newPair(t, jose.ES256, "other").jwk(), k.jwk())
			s := i.open(fmt.Sprintf(`,"algorithms":[%q]`, alg))
			p := opens(s, k.sign(t, with()))
			if p == nil {
				t.Fatal("refused")
			}
			if p.Owner != "idp/worker-7" || p.Share != "idp" || !p.May(ScopeWorker) || p.May(ScopeOperator) {
				t.Errorf("%+v", p)
			}
			strict := i.open(fmt.Sprintf(`,"algorithms":[%q]`, map[bool]string{true: "RS256", false: "ES256"}[alg == jose.ES256]))
			if opens(strict, k.sign(t, with())) != nil {
				t.Errorf("an algorithm that is not configured opens")
			}
		})
	}
}

// The claims limit a token as those of a passport's key do.
func TestClaimsOfSignedTokens(t *testing.T) {
	i, k := newIDP(t), newPair(t, jose.ES256, "k1")
	i.publish(k.jwk())
	s := i.open("")
	pin := func(text string) map[string]any {
		var m map[string]any
		if err := json.Unmarshal([]byte(text), &m); err != nil {
			t.Fatal(err)
		}
		return m
	}
	for name, c := range map[string]struct {
		claims map[string]any
		ok     func(*Principal) bool
	}{
		"namespaces": {with(), func(p *Principal) bool { return p.Namespace("/a") && !p.Namespace("/b") && !p.Namespace("/a/x") }},
		"hosts":      {with(), func(p *Principal) bool { return p.Backend("w1.internal") && !p.Backend("w2.internal") }},
		"hostnames absent are all": {with(), func(p *Principal) bool {
			may, stated := p.Env("any")
			return p.Hostname("any") && may && stated
		}},
		"hostnames": {with("pinboard", pin(`{"hostnames":["A.example"]}`)), func(p *Principal) bool {
			may, stated := p.Env("a.example")
			return p.Hostname("a.example") && !p.Hostname("b.example") && !may && !stated
		}},
		"null admits nothing": {with("pinboard", pin(`{"hostnames":null,"namespaces":null,"envs":null}`)), func(p *Principal) bool {
			may, stated := p.Env("x")
			return !p.Hostname("x") && !p.Namespace("/a") && !may && stated
		}},
		"envs": {with("pinboard", pin(`{"envs":["blue"]}`)), func(p *Principal) bool {
			blue, stated := p.Env("blue")
			green, _ := p.Env("green")
			upper, _ := p.Env("Blue")
			return blue && stated && !green && !upper
		}},
		"star":                 {with("pinboard", pin(`{"namespaces":["*"],"envs":["*"]}`)), func(p *Principal) bool { may, _ := p.Env("x"); return p.Namespace("/x") && may }},
		"no limits":            {with("pinboard", nil), func(p *Principal) bool { return !p.Namespace("/a") && !p.Backend("w1.internal") && p.Hostname("x") }},
		"as a passport":        {with("pinboard", nil, "claims", pin(`{"pinboard":{"namespaces":["/z"]}}`)), func(p *Principal) bool { return p.Namespace("/z") }},
		"scopes":               {with("scope", nil, "scopes", []string{"pinboard:operator"}), func(p *Principal) bool { return p.May(ScopeOperator) && !p.May(ScopeWorker) }},
		"scp":                  {with("scope", nil, "scp", "pinboard:worker x"), func(p *Principal) bool { return p.May(ScopeWorker) }},
		"no scope":             {with("scope", nil), func(p *Principal) bool { return !p.May(ScopeOperator) && !p.May(ScopeWorker) }},
		"a part of one":        {with("scope", "pinboard"), func(p *Principal) bool { return !p.May(ScopeOperator) && !p.May(ScopeWorker) }},
		"many audiences":       {with("aud", []string{"x", "pinboard"}), func(p *Principal) bool { return true }},
		"slash in the subject": {with("sub", "spiffe://a/b"), func(p *Principal) bool { return p.Owner == "idp/spiffe://a/b" }},
	} {
		p := opens(s, k.sign(t, c.claims))
		if p == nil || !c.ok(p) {
			t.Errorf("%s: %+v", name, p)
		}
	}
	for name, claims := range map[string]map[string]any{
		"both places":    with("claims", pin(`{"pinboard":{}}`)),
		"no list":        with("pinboard", pin(`{"namespaces":"*"}`)),
		"no texts":       with("pinboard", pin(`{"namespaces":[1]}`)),
		"no object":      with("pinboard", []string{"*"}),
		"scope a number": with("scope", 7),
	} {
		if p := opens(s, k.sign(t, claims)); p != nil {
			t.Errorf("%s: %+v", name, p)
		}
	}
}

// A token is refused unless every one of these is as it must be.
func TestSignedTokensRefused(t *testing.T) {
	i, k := newIDP(t), newPair(t, jose.RS256, "k1")
	i.publish(k.jwk(), newPair(t, jose.ES256, "k2").jwk())
	s := i.open("")
	now := time.Now().Unix()
	if opens(s, k.sign(t, with())) == nil {
		t.Fatal("the good token is refused: the test shows nothing")
	}
	for name, claims := range map[string]map[string]any{
		"another issuer": with("iss", "https://evil.example"), "issuer with a slash": with("iss", "https://idp.example/"), "no issuer": with("iss", nil),
		"another audience": with("aud", "shop"), "no audience": with("aud", nil), "no audience in a list": with("aud", []string{}), "part of the audience": with("aud", "pin"),
		"expired": with("exp", now-11), "no end": with("exp", nil), "an end of null": with("exp", json.RawMessage("null")), "an end beyond time": with("exp", 1e300), "an end that is a text": with("exp", "2999"),
		"not valid yet": with("nbf", now+60), "issued in the future": with("iat", now+60),
		"no subject": with("sub", nil), "empty subject": with("sub", ""), "long subject": with("sub", strings.Repeat("x", 256)), "a subject that breaks lines": with("sub", "a\nb"),
		"larger than a token may be": with("x", strings.Repeat("x", maxJWT)),
	} {
		if p := opens(s, k.sign(t, claims)); p != nil {
			t.Errorf("%s: %+v", name, p)
		}
	}
	for name, claims := range map[string]map[string]any{
		"just expired": with("exp", now-5), "almost valid": with("nbf", now+5), "issued a moment ahead": with("iat", now+5),
	} {
		if opens(s, k.sign(t, claims)) == nil {
			t.Errorf("%s: refused within the leeway", name)
		}
	}
	for name, token := range map[string]string{
		"another type": k.sign(t, with(), "typ", "logout+jwt"), "a type that is no text": k.sign(t, with(), "typ", 7),
		"a critical header":               k.sign(t, with(), "crit", []string{"exp2"}, "exp2", 1),
		"another key of that id":          pair{jose.RS256, "k1", newPair(t, jose.RS256, "evil").private}.sign(t, with()),
		"a key of the token's own":        ownKey(t),
		"the id of a key of another kind": pair{jose.RS256, "k2", k.private}.sign(t, with()),
		"unknown key id":                  pair{jose.RS256, "k9", k.private}.sign(t, with()),
		"not signed":                      unsigned(with(), "none"), "not signed, in capitals": unsigned(with(), "None"), "no algorithm": unsigned(with(), ""),
		"encrypted form": "a.b.c.d.e", "two parts": "a.b", "empty parts": "..", "junk": "a.b.c",
	} {
		if p := opens(s, token); p != nil {
			t.Errorf("%s: %+v", name, p)
		}
	}
	good := k.sign(t, with())
	parts := strings.Split(good, ".")
	forged := base64.RawURLEncoding.EncodeToString([]byte(`{"iss":"https://idp.example","sub":"admin","aud":"pinboard","exp":99999999999,"scope":"pinboard:operator"}`))
	for name, token := range map[string]string{
		"other claims": parts[0] + "." + forged + "." + parts[2], "no signature": parts[0] + "." + parts[1] + ".", "padded": good + "=", "two tokens": good + " " + good,
		"cut": good[:len(good)-4],
	} {
		if p := opens(s, token); p != nil {
			t.Errorf("%s: %+v", name, p)
		}
	}
	if opens(s, k.sign(t, with(), "typ", "at+JWT")) == nil || opens(s, k.sign(t, with(), "typ", "application/at+jwt")) == nil {
		t.Error("an access token is refused for its type")
	}
}

// A claim that stands twice has two readings: nobody gets to choose.
func TestDoubledClaims(t *testing.T) {
	i, k := newIDP(t), newPair(t, jose.ES256, "k1")
	i.publish(k.jwk())
	s := i.open("")
	text, _ := json.Marshal(with())
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: k.alg, Key: jose.JSONWebKey{Key: k.private, KeyID: k.kid}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, again := range []string{`"sub":"admin"`, `"iss":"https://idp.example"`, `"scope":"pinboard:operator"`} {
		signed, err := signer.Sign([]byte(strings.TrimSuffix(string(text), "}") + "," + again + "}"))
		if err != nil {
			t.Fatal(err)
		}
		token, _ := signed.CompactSerialize()
		if p := opens(s, token); p != nil {
			t.Errorf("%s twice: %+v", again, p)
		}
	}
}

// ownKey is signed with a key that the token carries itself.
func ownKey(t *testing.T) string {
	k := newPair(t, jose.RS256, "evil")
	return pair{jose.RS256, "k1", k.private}.sign(t, with(), "jwk", map[string]any{"kty": "RSA"}, "jku", "http://evil.example/keys")
}

func unsigned(claims map[string]any, alg string) string {
	header, _ := json.Marshal(map[string]any{"alg": alg, "typ": "JWT", "kid": "k1"})
	text, _ := json.Marshal(claims)
	return base64.RawURLEncoding.EncodeToString(header) + "." + base64.RawURLEncoding.EncodeToString(text) + "."
}

// The public key of the issuer is no shared secret, in no form of it.
func TestAlgorithmConfusion(t *testing.T) {
	i, k := newIDP(t), newPair(t, jose.RS256, "k1")
	jwk := k.jwk()
	jwk.Algorithm = ""
	i.publish(jwk, map[string]any{"kty": "oct", "kid": "shared", "k": "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0LXNlY3JldA", "alg": "HS256"})
	s := i.open("")
	der, err := x509.MarshalPKIXPublicKey(k.private.Public())
	if err != nil {
		t.Fatal(err)
	}
	text, _ := json.Marshal(jwk)
	for name, secret := range map[string][]byte{
		"PEM": pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), "DER": der, "JWK": text,
		"modulus": k.private.Public().(*rsa.PublicKey).N.Bytes(), "a symmetric key of the set": []byte("secret-secret-secret-secret-secret"),
	} {
		for _, kid := range []string{"k1", "shared", ""} {
			header, _ := json.Marshal(map[string]any{"alg": "HS256", "typ": "JWT", "kid": kid})
			claims, _ := json.Marshal(with())
			body := base64.RawURLEncoding.EncodeToString(header) + "." + base64.RawURLEncoding.EncodeToString(claims)
			mac := hmac.New(sha256.New, secret)
			mac.Write([]byte(body))
			if p := opens(s, body+"."+base64.RawURLEncoding.EncodeToString(mac.Sum(nil))); p != nil {
				t.Errorf("HS256 with the %s, key id %q: %+v", name, kid, p)
			}
		}
	}
	if opens(s, k.sign(t, with())) == nil {
		t.Error("the good token is refused")
	}
	for _, alg := range []string{"none", "HS256", "HS512", "rs256", ""} {
		_, err := New("", fmt.Sprintf(`{"providers":[{"type":"jwt","id":"idp","issuer":"i","audience":"a","jwks":"https://x/","algorithms":[%q]}]}`, alg))
		if err == nil || !strings.HasPrefix(err.Error(), "PINBOARD_PASSPORT: providers[0].algorithms: want some of [RS256") {
			t.Errorf("algorithms %q: %v", alg, err)
		}
	}
}

// A token without a key id is judged by the one key that fits, if it is one.
func TestNoKeyID(t *testing.T) {
	i, k, l := newIDP(t), newPair(t, jose.ES256, ""), newPair(t, jose.ES256, "k2")
	i.publish(newPair(t, jose.RS256, "r").jwk(), k.jwk())
	if s := i.open(""); opens(s, k.sign(t, with())) == nil {
		t.Error("one key fits")
	}
	i.publish(k.jwk(), l.jwk())
	if s := i.open(""); opens(s, k.sign(t, with())) != nil {
		t.Error("two keys fit")
	}
}

// Rotation: a new key is fetched when a token names it, one that is withdrawn
// ends, and a renewed token of the same subject is the same owner.
func TestKeysRotate(t *testing.T) {
	i, old, fresh := newIDP(t), newPair(t, jose.ES256, "k1"), newPair(t, jose.ES256, "k2")
	i.publish(old.jwk())
	s := i.open("")
	first := opens(s, old.sign(t, with()))
	if first == nil || i.loads.Load() != 1 {
		t.Fatalf("%v after %d loads", first, i.loads.Load())
	}
	i.publish(old.jwk(), fresh.jwk())
	i.clock.Add(11)
	second := opens(s, fresh.sign(t, with("jti", "2")))
	if second == nil || second.Owner != first.Owner || i.loads.Load() != 2 {
		t.Fatalf("a new key: %v after %d loads", second, i.loads.Load())
	}
	i.publish(fresh.jwk())
	token := old.sign(t, with("exp", time.Now().Unix()+3600))
	i.clock.Add(int64(refreshAfter/time.Second) + 1)
	opens(s, token) // begins the load
	settle(t, s)
	if opens(s, token) != nil {
		t.Error("a withdrawn key still opens")
	}
	i.publish(old.jwk())
	i.clock.Add(int64(2*refreshAfter/time.Second) + 1)
	if opens(s, fresh.sign(t, with("exp", time.Now().Unix()+3600))) != nil {
		t.Error("after a long silence the first token is judged by old keys")
	}
}

// settle waits until no load is under way.
func settle(t *testing.T, s *Source) {
	t.Helper()
	for _, k := range s.rings {
		k.mu.Lock()
		busy := k.busy
		k.mu.Unlock()
		if busy != nil {
			<-busy
		}
	}
}

// A flood of unknown key ids is one load in ten seconds.
func TestUnknownKeysAreFetchedOnce(t *testing.T) {
	i, k := newIDP(t), newPair(t, jose.ES256, "k1")
	i.publish(k.jwk())
	s := i.open("")
	token := func(n int) string { return pair{jose.ES256, fmt.Sprint("x", n), k.private}.sign(t, with()) }
	var wg sync.WaitGroup
	for n := range 50 {
		wg.Go(func() {
			if opens(s, token(n)) != nil {
				t.Error("opened")
			}
		})
	}
	wg.Wait()
	if n := i.loads.Load(); n != 1 {
		t.Errorf("%d loads", n)
	}
	i.clock.Add(11)
	for n := range 50 {
		opens(s, token(n))
	}
	if n := i.loads.Load(); n != 2 {
		t.Errorf("%d loads after ten seconds", n)
	}
	if opens(s, k.sign(t, with())) == nil {
		t.Error("the good token is refused")
	}
	if i.loads.Load() != 2 {
		t.Error("a known key is fetched again")
	}
}

// The issuer is away: cached keys go on, for good, across a reload too, and the
// operator hears of it once and of its end.
func TestIssuerAway(t *testing.T) {
	i, k := newIDP(t), newPair(t, jose.ES256, "k1")
	i.publish(k.jwk())
	s := i.open("")
	var mu sync.Mutex
	var heard []string
	s.Report(func(provider string, err error) {
		mu.Lock()
		defer mu.Unlock()
		heard = append(heard, fmt.Sprint(provider, ": ", err))
	})
	settle(t, s)
	i.down.Store(true)
	token := k.sign(t, with("exp", time.Now().Unix()+100_000))
	for range 5 {
		i.clock.Add(3600)
		if opens(s, token) == nil {
			t.Fatal("refused while the issuer is away")
		}
		settle(t, s)
	}
	if err := s.Reload(); err != nil {
		t.Fatal(err)
	}
	settle(t, s)
	if opens(s, token) == nil {
		t.Error("refused after a reload")
	}
	i.down.Store(false)
	i.clock.Add(3600)
	opens(s, token)
	settle(t, s)
	mu.Lock()
	defer mu.Unlock()
	if want := []string{"idp: the issuer answers 500 for its keys", "idp: <nil>"}; !slices.Equal(heard, want) {
		t.Errorf("heard %q, want %q", heard, want)
	}
}

// An issuer that is away at the start shuts out its tokens and nothing else.
func TestIssuerAwayAtTheStart(t *testing.T) {
	i, k := newIDP(t), newPair(t, jose.ES256, "k1")
	i.publish(k.jwk())
	i.down.Store(true)
	s := i.open(`},{"type":"staticToken","id":"s","keys":[{"name":"n","token":"static"}]`)
	if opens(s, k.sign(t, with())) != nil || opens(s, "static") == nil {
		t.Error("while away")
	}
	i.down.Store(false)
	i.clock.Add(11)
	if opens(s, k.sign(t, with())) == nil {
		t.Error("refused although the issuer is back")
	}
}

// Nothing that answers in the issuer's place can fill or hold the node.
func TestKeySetsAreBounded(t *testing.T) {
	k := newPair(t, jose.ES256, "k1")
	good, _ := json.Marshal(map[string]any{"keys": []any{k.jwk()}})
	for name, h := range map[string]http.HandlerFunc{
		"large": func(w http.ResponseWriter, _ *http.Request) { w.Write(append(good, strings.Repeat(" ", maxKeySet)...)) },
		"endless": func(w http.ResponseWriter, r *http.Request) {
			w.Write([]byte(`{"keys":[`))
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		},
		"silent":   func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"redirect": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", http.StatusFound) },
		"junk":     func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("<html>")) },
		"no keys":  func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte(`{"keys":[]}`)) },
		"many keys": func(w http.ResponseWriter, _ *http.Request) {
			json.NewEncoder(w).Encode(map[string]any{"keys": slices.Repeat([]any{k.jwk()}, maxKeys+1)})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mux := http.NewServeMux()
			mux.HandleFunc("/elsewhere", func(w http.ResponseWriter, _ *http.Request) { w.Write(good) })
			mux.HandleFunc("/{$}", h)
			srv := httptest.NewServer(mux)
			defer srv.Close()
			ring, err := newKeyring(srv.URL+"/", time.Now)
			if err != nil {
				t.Fatal(err)
			}
			begun := time.Now()
			if err := ring.take(); err == nil || len(ring.keys) > 0 || strings.Contains(err.Error(), srv.URL) {
				t.Errorf("%v, %d keys", err, len(ring.keys))
			}
			if took := time.Since(begun); took > 3*loadTimeout {
				t.Errorf("took %v", took)
			}
		})
	}
}

// A weak, private or foreign key of a set is left out, the others count.
func TestKeysThatAreLeftOut(t *testing.T) {
	weak, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	k, private := newPair(t, jose.ES256, "k1"), newPair(t, jose.ES256, "private")
	cipher := newPair(t, jose.ES256, "cipher").jwk()
	cipher.Use = "enc"
	i := newIDP(t)
	i.publish(map[string]any{"kty": "future", "kid": "f"}, "no key at all",
		jose.JSONWebKey{Key: &weak.PublicKey, KeyID: "weak"}, jose.JSONWebKey{Key: private.private, KeyID: "private"}, cipher, k.jwk())
	s := i.open("")
	if opens(s, k.sign(t, with())) == nil {
		t.Error("the good key is left out")
	}
	for name, p := range map[string]pair{"weak": {jose.RS256, "weak", weak}, "private": private, "for encryption": {jose.ES256, "cipher", newPair(t, jose.ES256, "cipher").private}} {
		if opens(s, p.sign(t, with())) != nil {
			t.Errorf("the %s key opens", name)
		}
	}
}

// Keys in a file: read at the start, at a reload, and when a token names one
// that is not known.
func TestKeysInAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.json")
	save := func(keys ...any) {
		text, _ := json.Marshal(map[string]any{"keys": keys})
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	i, k, l := newIDP(t), newPair(t, jose.ES256, "k1"), newPair(t, jose.EdDSA, "k2")
	i.url = "@" + path
	doc := fmt.Sprintf(`{"providers":[{"type":"jwt","id":"idp","issuer":"https://idp.example","audience":["x","pinboard"],"jwks":%q}]}`, i.url)
	if _, err := open("", doc, i.now); err == nil || err.Error() != "PINBOARD_PASSPORT: providers[0].jwks: no such file" {
		t.Errorf("no file: %v", err)
	}
	save(k.jwk())
	s, err := open("", doc, i.now)
	if err != nil || opens(s, k.sign(t, with())) == nil || opens(s, l.sign(t, with())) != nil {
		t.Fatalf("first file: %v", err)
	}
	save(l.jwk())
	if err := s.Reload(); err != nil || opens(s, l.sign(t, with())) == nil || opens(s, k.sign(t, with())) != nil {
		t.Errorf("after a reload: %v", err)
	}
	save(k.jwk())
	i.clock.Add(11)
	if opens(s, k.sign(t, with())) == nil {
		t.Error("a new key in the file is not seen")
	}
}

func TestIssuersRefused(t *testing.T) {
	const good = `{"type":"jwt","id":"idp","issuer":"https://idp.example","audience":"pinboard","jwks":"https://idp.example/keys"}`
	if _, err := New("", `{"providers":[`+good+`]}`); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ old, new, want string }{
		{`"idp"`, `"a/b"`, "providers[0].id: want"},
		{`"https://idp.example"`, `" "`, "providers[0].issuer: want"},
		{`"pinboard"`, `""`, "providers[0].audience: want"}, {`"pinboard"`, `[]`, "providers[0].audience: want"}, {`"pinboard"`, `["a",""]`, "providers[0].audience: want"},
		{`"https://idp.example/keys"`, `""`, "providers[0].jwks: want an https URL"},
		{`"https://idp.example/keys"`, `"http://idp.example/keys"`, "providers[0].jwks: want https: plain http is for loopback only"},
		{`"https://idp.example/keys"`, `"http://10.0.0.1/keys"`, "providers[0].jwks: want https"},
		{`"https://idp.example/keys"`, `"https://u:hunter2@idp.example/keys"`, "providers[0].jwks: want an https URL without user"},
		{`"https://idp.example/keys"`, `"file:///keys"`, "providers[0].jwks: want an https URL"},
		{`"https://idp.example/keys"`, `"https://idp.example/keys","algorithms":[]`, "providers[0].algorithms: want"},
		{`}`, `},` + good, "providers[1].id: used twice"},
		{`}`, `},` + strings.Replace(good, `"idp"`, `"two"`, 1), "providers[1].issuer: used twice"},
		{`}`, `},{"type":"staticToken","id":"idp","keys":[]}`, "providers[1].id: used twice"},
		{`}`, `},{"type":"staticToken","id":"s","keys":[{"name":"n","token":"t","claims":{"pinboard":{"envs":"x"}}}]}`, "claims.pinboard: want lists"},
	} {
		_, err := New("", `{"providers":[`+strings.Replace(good, c.old, c.new, 1)+`]}`)
		if err == nil || !strings.HasPrefix(err.Error(), "PINBOARD_PASSPORT: "+c.want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v, want %s", c.new, err, c.want)
		}
	}
}

// Plain http is for loopback, whatever name it is given.
func TestPlainHTTPStaysOnTheMachine(t *testing.T) {
	d := keyClient(true)
	_, err := d.Get("http://192.0.2.1/")
	if err == nil || !strings.Contains(err.Error(), "plain http to another machine") {
		t.Error(err)
	}
}

// The issuer and the token of the operator's guide work together.
func TestTheGuidesIssuerWorks(t *testing.T) {
	guide, err := os.ReadFile("../../docs/operating.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(guide), "### Tokens of an issuer")
	blocks := strings.Split(rest, "```")
	if len(blocks) < 4 {
		t.Fatal("no issuer in the guide")
	}
	doc, text := strings.TrimPrefix(blocks[1], "json\n"), strings.TrimPrefix(blocks[3], "json\n")
	i, k := newIDP(t), newPair(t, jose.ES256, "k1")
	i.publish(k.jwk())
	s, err := open("", strings.Replace(doc, "https://idp.example/.well-known/jwks.json", i.url, 1), i.now)
	if err != nil || !strings.Contains(doc, "https://idp.example/.well-known/jwks.json") {
		t.Fatal(err)
	}
	var claims map[string]any
	if err := json.Unmarshal([]byte(text), &claims); err != nil {
		t.Fatal(err)
	}
	claims["exp"] = time.Now().Unix() + 60
	p := opens(s, k.sign(t, claims))
	if p == nil || p.Owner != "idp/worker-7" || !p.May(ScopeWorker) || !p.Namespace("/threads") || p.Namespace("/files") ||
		!p.Hostname("chat.example") || p.Hostname("x") || !p.Backend("10.1.2.3") {
		t.Fatalf("%+v", p)
	}
	if may, stated := p.Env("blue"); !may || !stated {
		t.Error("the env of the guide is not joined")
	}
}

// The claim envs limits static tokens too.
func TestEnvsOfStaticTokens(t *testing.T) {
	s, err := Open("all", `{"providers":[{"type":"staticToken","id":"p","keys":[
		{"name":"a","token":"a","claims":{"pinboard":{"hostnames":["h"]}}},
		{"name":"b","token":"b","claims":{"pinboard":{"hostnames":["h"],"envs":["blue"]}}},
		{"name":"c","token":"c"}]}]}`)
	if err != nil {
		t.Fatal(err)
	}
	for token, want := range map[string][2]bool{"all": {true, true}, "a": {false, false}, "b": {true, true}, "c": {true, true}} {
		if may, stated := opens(s, token).Env("blue"); may != want[0] || stated != want[1] {
			t.Errorf("%s: blue %v %v", token, may, stated)
		}
	}
	if may, _ := opens(s, "b").Env("green"); may {
		t.Error("b may join green")
	}
}
