package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"pinboard/internal/rawtest"
)

// issuer signs tokens; its keys are at a URL. The passport names it.
func issuer(t *testing.T) (passport string, sign func(subject string, life time.Duration, claims string) string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: &key.PublicKey, KeyID: "k", Use: "sig"}}})
	}))
	t.Cleanup(srv.Close)
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: key, KeyID: "k"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	sign = func(subject string, life time.Duration, claims string) string {
		signed, err := signer.Sign(fmt.Appendf(nil, `{"iss":"https://idp.example","aud":"pinboard","sub":%q,"exp":%d,"jti":%q,%s}`,
			subject, time.Now().Add(life).Unix(), rand.Text(), claims))
		if err != nil {
			t.Fatal(err)
		}
		token, err := signed.CompactSerialize()
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	return fmt.Sprintf(`{"providers":[{"type":"jwt","id":"idp","issuer":"https://idp.example","audience":"pinboard","jwks":%q}]}`, srv.URL), sign
}

// Workers and operators without any long-lived token: the whole way through
// the command, within the token's limits, and with a renewed token.
func TestSignedTokensThroughTheCommand(t *testing.T) {
	t.Parallel()
	passport, sign := issuer(t)
	p := serve(t, "PINBOARD_TOKEN=", "PINBOARD_PASSPORT="+passport, "LOG_LEVEL=debug").ready()
	const limits = `"scope":"pinboard:worker","pinboard":{"namespaces":["/t"],"allowedBackendHosts":["127.0.0.1"]}`
	worker := sign("worker-7", time.Minute, limits)
	renewed := sign("worker-7", time.Minute, limits)
	other := sign("worker-8", time.Minute, limits)
	expired := sign("worker-7", -time.Minute, limits)
	operator := sign("ops", time.Minute, `"scope":"pinboard:operator","pinboard":{"namespaces":["*"],"allowedBackendHosts":["*"]}`)

	w := rawtest.NewWorker(t, rawtest.Always(rawtest.Response(200, "ok")))
	s := w.Register(p.url, worker, time.Minute, "/t") // beats once a minute: not in this test
	if status, body := p.get("/t/x"); status != 200 {
		t.Fatalf("%d %s", status, body)
	}
	if status, body := p.getAs(operator, "/registry/workers"); status != 200 || !strings.Contains(body, `"idp/worker-7"`) {
		t.Errorf("the operator's list: %d %s", status, body)
	}
	beat := func(token string) int {
		return p.post(token, "/registry/heartbeat", map[string]any{"sessionId": s.ID, "headroom": 1, "draining": false})
	}
	register := func(url, namespace string) int {
		return p.post(worker, "/registry/register", map[string]any{
			"clientId": strings.Repeat("c", 32), "secret": strings.Repeat("5", 64), "namespaces": []string{namespace},
			"advertiseUrl": url, "headroom": 1, "draining": false,
		})
	}
	for name, c := range map[string]struct{ got, want int }{
		"a renewed token keeps the session": {beat(renewed), 200},
		"another subject does not get it":   {beat(other), 403},
		"an expired token":                  {beat(expired), 401},
		"a worker gives no orders":          {p.post(worker, "/registry/drain", map[string]any{"sessionId": s.ID}), 403},
		"a namespace beyond the claims":     {register(w.URL(), "/u"), 403},
		"a backend host beyond the claims":  {register("http://127.0.0.2:1", "/t"), 403},
		"the signature of another token":    {beat(worker[:strings.LastIndexByte(worker, '.')] + other[strings.LastIndexByte(other, '.'):]), 401},
	} {
		if c.got != c.want {
			t.Errorf("%s: %d, want %d", name, c.got, c.want)
		}
	}
	for name, token := range map[string]string{"worker": worker, "expired": expired, "operator": operator} {
		for _, part := range strings.Split(token, ".")[1:] {
			if strings.Contains(p.log(), part) {
				t.Errorf("a part of the %s's token is in the log", name)
			}
		}
	}
}

// post is one request with a bearer token; 0 is no answer.
func (p *process) post(token, path string, body any) int {
	p.t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		p.t.Fatal(err)
	}
	req, err := http.NewRequest("POST", p.url+path, bytes.NewReader(text))
	if err != nil {
		p.t.Fatal(err)
	}
	req.Close = true
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	res, err := (&http.Client{Timeout: patience}).Do(req)
	if err != nil {
		return 0
	}
	defer res.Body.Close()
	answer, _ := io.ReadAll(res.Body)
	p.t.Logf("%s: %d %s", path, res.StatusCode, answer)
	return res.StatusCode
}
