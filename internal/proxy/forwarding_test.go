package proxy_test

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"pinboard"
	"pinboard/internal/attest"
	"pinboard/internal/directory"
	"pinboard/internal/proxy"
)

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("10.0.0.0/8")}

func trusting(c *proxy.Config) { c.Trusted = loopback }

// lines are the lines of a head whose name starts with one of prefixes.
func lines(head string, prefixes ...string) (out []string) {
	for _, l := range strings.Split(head, "\r\n")[1:] {
		for _, p := range prefixes {
			if strings.HasPrefix(strings.ToLower(l), p) {
				out = append(out, l)
			}
		}
	}
	return out
}

// FC-33: the stated policy for forwarding headers.
func TestForwardingHeaders(t *testing.T) {
	const sent = "GET /t/a HTTP/1.1\r\nHost: h:1\r\nX-Forwarded-For: 1.1.1.1\r\nX-Forwarded-For: 2.2.2.2, 3.3.3.3\r\n" +
		"X-Forwarded-Host: real.test\r\nX-Forwarded-Proto: https\r\nForwarded: for=1.1.1.1\r\nX-Real-IP: 1.1.1.1\r\n" +
		"X_Forwarded_For: 6.6.6.6\r\nX-Forwarded_Proto: evil\r\n\r\n"
	for _, test := range []struct {
		name   string
		change func(*proxy.Config)
		want   []string
	}{
		{"untrusted peer", func(*proxy.Config) {}, []string{
			"X-Forwarded-For: 127.0.0.1", "X-Forwarded-Host: h:1", "X-Forwarded-Proto: http"}},
		{"trusted peer", trusting, []string{
			"X-Forwarded-Host: real.test", "X-Forwarded-Proto: https", "Forwarded: for=1.1.1.1", "X-Real-IP: 1.1.1.1",
			"X-Forwarded-For: 1.1.1.1, 2.2.2.2, 3.3.3.3, 127.0.0.1"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, test.change)
			s := newScripted(t, replying(okAnswer))
			w.dir.place(s.Worker)
			w.ask(sent)
			got := lines(s.deliveries()[0].head, "x-forwarded", "x_forwarded", "x-real", "forwarded")
			if strings.Join(got, "|") != strings.Join(test.want, "|") {
				t.Errorf("worker got\n%q, want\n%q", got, test.want)
			}
		})
	}
	w := newWorld(t, trusting)
	s := newScripted(t, replying(okAnswer))
	w.dir.place(s.Worker)
	w.ask(bodyless)
	got := lines(s.deliveries()[0].head, "x-forwarded")
	if want := "X-Forwarded-For: 127.0.0.1|X-Forwarded-Host: h|X-Forwarded-Proto: http"; strings.Join(got, "|") != want {
		t.Errorf("first proxy: %q", got)
	}
}

func TestAffinityKeys(t *testing.T) {
	const request = "GET /t/a?z=1&key=que%20ry&key=2 HTTP/1.1\r\nHost: h\r\nX-KEY: head\r\nCookie: other=1; key=cookie; key=2\r\n"
	for _, test := range []struct {
		affinity, extra string
		change          func(*proxy.Config)
		want            string
	}{
		{"ip", "X-Forwarded-For: 9.9.9.9\r\n", func(*proxy.Config) {}, "127.0.0.1"}, // forged: does not move it
		{"ip", "", trusting, "127.0.0.1"},
		{"ip", "X-Forwarded-For: 6.6.6.6, 9.9.9.9, 10.1.1.1\r\n", trusting, "9.9.9.9"},
		{"ip", "X-Forwarded-For: 9.9.9.9\r\nX-Forwarded-For: 10.1.1.1\r\n", trusting, "9.9.9.9"},
		{"ip", "X-Forwarded-For: 10.2.2.2, 10.1.1.1\r\n", trusting, "10.2.2.2"},
		{"ip", "X-Forwarded-For: 9.9.9.9:1234\r\n", trusting, "9.9.9.9"},
		{"ip", "X-Forwarded-For: [2001:db8::1]:1234\r\n", trusting, "2001:db8::1"},
		{"ip", "X-Forwarded-For: ::ffff:9.9.9.9\r\n", trusting, "9.9.9.9"},
		{"ip", "X-Forwarded-For: 9.9.9.9, unknown, 10.1.1.1\r\n", trusting, "10.1.1.1"},
		{"ip", "X-Forwarded-For: \r\n", trusting, "127.0.0.1"},
		{"none", "", func(*proxy.Config) {}, ""},
		{"header:X-Key", "", func(*proxy.Config) {}, "head"},
		{"header:Absent", "", func(*proxy.Config) {}, ""},
		{"cookie:key", "", func(*proxy.Config) {}, "cookie"},
		{"cookie:ke", "", func(*proxy.Config) {}, ""},
		{"query:key", "", func(*proxy.Config) {}, "que%20ry"},
		{"query:y", "", func(*proxy.Config) {}, ""},
	} {
		w := newWorld(t, test.change, func(c *proxy.Config) {
			var err error
			if c.Affinity, err = proxy.ParseAffinity(test.affinity); err != nil {
				t.Fatal(err)
			}
		})
		w.dir.place(newScripted(t, replying(okAnswer)).Worker)
		w.ask(request + test.extra + "\r\n")
		if got := w.dir.resolved()[0].Affinity; got != test.want {
			t.Errorf("%s, %q: %q, want %q", test.affinity, test.extra, got, test.want)
		}
	}
	for _, bad := range []string{"ip:x", "none:x", "header", "header:", "cookie:", "query", "moon"} {
		if _, err := proxy.ParseAffinity(bad); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

// FC-23, FC-06: hop-by-hop fields go; what Pinboard adds stays whatever the
// client lists; nothing but websocket is ever upgraded.
func TestHopByHopFieldsEndHere(t *testing.T) {
	w := newWorld(t)
	s := newScripted(t, replying("HTTP/1.1 200 OK\r\nConnection: X-Gone, keep-alive\r\nX-Gone: 1\r\nKeep-Alive: timeout=5\r\n"+
		"Proxy-Authenticate: x\r\nUpgrade: h2c\r\nTrailer: X\r\nPinned-Refusal: lease-unhealthy\r\nPinboard-Error: forged\r\nX-Stays: 1\r\nContent-Length: 2\r\n\r\nok"))
	w.dir.place(s.Worker)
	got := w.ask("GET /t/a HTTP/1.1\r\nHost: h\r\nConnection:\r\nConnection: Upgrade, HTTP2-Settings, Pinboard-Epoch, X-Forwarded-For, Host, Cookie\r\n" +
		"Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\nTE: deflate\r\nCookie: c\r\nProxy-Authorization: x\r\nX-Stays: 1\r\n\r\n")
	if want := "HTTP/1.1 200 OK\r\nX-Stays: 1\r\nContent-Length: 2\r\n\r\n"; got.head != want {
		t.Errorf("client got %q", got.head)
	}
	want := "GET /t/a HTTP/1.1\r\nHost: h\r\nX-Stays: 1\r\nX-Forwarded-For: 127.0.0.1\r\nX-Forwarded-Host: h\r\nX-Forwarded-Proto: http\r\n" +
		"Pinboard-Epoch: 41\r\nPinboard-Attestation: att." + s.Session + "..0\r\n\r\n"
	if got := s.deliveries()[0].head; got != want {
		t.Errorf("worker got %q", got)
	}
	w.ask("GET /t/a HTTP/1.1\r\nHost: h\r\nTE: trailers, deflate\r\nConnection: TE\r\n\r\n")
	if got := s.deliveries()[1]; got.line("TE") != "trailers" || got.line("Connection") != "TE" {
		t.Errorf("worker got %q", got.head)
	}
	w.ask("GET /t/a HTTP/1.1\r\nHost: h\r\nTE: trailers\r\nConnection: keep-alive\r\n\r\n")
	if got := s.deliveries()[2]; got.line("TE") != "" {
		t.Errorf("TE without Connection: TE passed: %q", got.head)
	}
}

// FC-57: a worker sees exactly one epoch and attestation, Pinboard's.
func TestInternalFieldsAreNeverTheClients(t *testing.T) {
	w := newWorld(t)
	s := newScripted(t, replying(okAnswer))
	w.dir.place(s.Worker)
	w.ask("GET /t/a HTTP/1.1\r\nHost: h\r\nPinboard-Epoch: 999\r\npinboard-epoch: 998\r\nPinboard_Epoch: 997\r\nPINBOARD-ATTESTATION: forged\r\n" +
		"Pinboard-Caller: /t/evil\r\nX-Pinboard-Epoch: 1\r\nx_pinboard_caller: /t/evil\r\nX-Pinned-Proxy-Secret: guess\r\nx_pinned_proxy_secret: guess\r\nPinned-Refusal: x\r\nPinboard-Subrequest-Depth: 7\r\n\r\n")
	want := []string{"Pinboard-Epoch: 41", "Pinboard-Attestation: att." + s.Session + "..0"}
	if got := lines(s.deliveries()[0].head, "pin", "x-pin", "x_pin"); strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("worker got %q", got)
	}
}

// The other way round: names of Pinboard's own reach a client from Pinboard or
// not at all, in interim answers, final ones, upgrades and trailers.
func TestInternalFieldsAreNeverTheWorkers(t *testing.T) {
	t.Parallel()
	const internal = "Pinboard-Error: forged\r\nPinboard-Epoch: 41\r\npinboard_attestation: leaked\r\nPINBOARD-SESSION-SECRET: leaked\r\n" +
		"Pinboard-From: /t/a\r\nPinboard-Session: s\r\nPinboard-Subrequest-Depth: 1\r\nPinboard_Anything: x\r\nX-Pinned-Proxy-Secret: leaked\r\n" +
		"x_pinned_proxy_secret: leaked\r\nX-Pinboard-Error: forged\r\nPinned-Refusal: no\r\nPinned_Refusal: lease-unhealthy\r\nPinned-Anything: x\r\n"
	const length, chunked = "Content-Length: 2\r\n\r\nok", "Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n"
	upgraded := strings.TrimSuffix(switching, "\r\n")
	for _, test := range []struct{ name, request, answer, want string }{
		{"a 200", bodyless, "HTTP/1.1 200 OK\r\nA: 1\r\n" + internal + length, "HTTP/1.1 200 OK\r\nA: 1\r\n" + length},
		{"an error", bodyless, "HTTP/1.1 503 No\r\n" + internal + length, "HTTP/1.1 503 No\r\n" + length},
		{"interim", bodyless, "HTTP/1.1 103 Early\r\n" + internal + "Link: x\r\n\r\n" + okAnswer, "HTTP/1.1 103 Early\r\nLink: x\r\n\r\n" + okAnswer},
		{"trailers", bodyless, "HTTP/1.1 200 OK\r\n" + internal + chunked + internal + "B: 2\r\n\r\n", "HTTP/1.1 200 OK\r\n" + chunked + "B: 2\r\n\r\n"},
		{"names alike", bodyless, "HTTP/1.1 200 OK\r\nPinboards: 1\r\nPinned: 2\r\nX-Pin-Error: 3\r\n" + length,
			"HTTP/1.1 200 OK\r\nPinboards: 1\r\nPinned: 2\r\nX-Pin-Error: 3\r\n" + length},
		{"an upgrade", handshake, upgraded + internal + "\r\n", ""},
	} {
		w := newWorld(t)
		w.dir.place(newScripted(t, replying(test.answer)).Worker)
		c := w.dial()
		c.send(test.request)
		if test.want != "" {
			c.readExactly(test.want)
			continue
		}
		head, err := readHead(c.r)
		if got := lines(head, "pin", "x-pin", "x_pin"); len(got) > 0 || err != nil || !strings.HasPrefix(head, "HTTP/1.1 101 ") {
			t.Errorf("%s: client got %q, %v", test.name, head, err)
		}
	}
	w := newWorld(t) // and Pinboard's own errors say so
	if got := w.ask(bodyless); got.line("Pinboard-Error") != "unknown_namespace" {
		t.Errorf("client got %q", got.head)
	}
}

func TestAbsoluteTargetNamesTheHost(t *testing.T) {
	w := newWorld(t, func(c *proxy.Config) { c.HostnameAware = true })
	s := newScripted(t, replying(okAnswer))
	w.dir.place(s.Worker)
	w.ask("GET http://A.test:81/t/a?x HTTP/1.1\r\nX: 1\r\nHost: other\r\n\r\n")
	if got := s.deliveries()[0].head; !strings.HasPrefix(got, "GET /t/a?x HTTP/1.1\r\nHost: A.test:81\r\nX: 1\r\nX-F") {
		t.Errorf("worker got %q", got)
	}
	if got := w.dir.resolved()[0].Host; got != "a.test" {
		t.Errorf("resolved for %q", got)
	}
	w.ask("GET /t/a HTTP/1.1\r\nHost: [::1]:80\r\n\r\n")
	if got := w.dir.resolved()[1].Host; got != "[::1]" {
		t.Errorf("resolved for %q", got)
	}
	w.ask("GET /t/a HTTP/1.1\r\nHost: [::1]\r\n\r\n")
	if got := w.dir.resolved()[2].Host; got != "[::1]" {
		t.Errorf("resolved for %q", got)
	}
}

// Hostname mode reads the authority before anything else.
func TestWithoutAHostnameNothingIsRead(t *testing.T) {
	w := newWorld(t, func(c *proxy.Config) { c.HostnameAware = true })
	for _, head := range []string{
		"GET /t/a HTTP/1.0\r\n", "GET /t/a HTTP/1.1\r\n", "GET /t/a HTTP/1.1\r\nHost:\r\n", "GET /t/a HTTP/1.1\r\nHost: a\r\nHost: a\r\n",
		"GET /t/%61 HTTP/1.1\r\nHost: \r\n", "GET /t/a HTTP/1.1\r\nHost: :80\r\n", "GET /t/a HTTP/1.1\r\nHost: a b\r\n", "GET /t/a HTTP/1.1\r\nHost: a:b\r\n",
	} {
		if got := w.ask(head + "\r\n"); got.line("Pinboard-Error") != "missing_host" || !strings.Contains(got.head, " 400 ") {
			t.Errorf("%q: %q", head, got.head)
		}
	}
	s := newScripted(t, replying(okAnswer))
	w.dir.place(s.Worker)
	w.ask("GET /t/a HTTP/1.1\r\nHost: A.Test.:80\r\n\r\n")
	if got := w.dir.resolved(); len(got) != 1 || got[0].Host != "a.test" {
		t.Errorf("resolved %+v", got)
	}
}

// A Host that is no authority is 400 in every mode; one that is valid and odd
// is not: in hostname mode nothing is registered there.
func TestOddHosts(t *testing.T) {
	for _, aware := range []bool{false, true} {
		w := newWorld(t, func(c *proxy.Config) { c.HostnameAware = aware })
		s := newScripted(t, replying(okAnswer))
		w.dir.place(s.Worker)
		for _, bad := range []string{"[", "a:b:c", "%zz", "a:b", "[::1", "[x]", "a@b"} {
			got := w.ask("GET /t/a HTTP/1.1\r\nHost: " + bad + "\r\n\r\n")
			if !strings.HasPrefix(got.head, "HTTP/1.1 400 ") || got.line("Pinboard-Error") != "missing_host" {
				t.Errorf("aware %v, %q: %q", aware, bad, got.head)
			}
		}
		want := "HTTP/1.1 200 "
		if aware {
			want = "HTTP/1.1 404 "
		}
		for _, odd := range []string{"a,b", "a..b", "%41.b", "a!$&'()*+;=:1"} {
			if got := w.ask("GET /t/a HTTP/1.1\r\nHost: " + odd + "\r\n\r\n"); !strings.HasPrefix(got.head, want) {
				t.Errorf("aware %v, %q: %q", aware, odd, got.head)
			}
		}
		if aware != (len(s.deliveries()) == 0) {
			t.Errorf("aware %v: %d deliveries", aware, len(s.deliveries()))
		}
	}
}

func TestOldDialectsGetTheirPathAndSecret(t *testing.T) {
	w := newWorld(t)
	s := newScripted(t, replying(okAnswer))
	k := *s.Worker
	k.URL, k.PathInURL, k.SendSecret = s.URL+"/base/t", true, true
	w.dir.place(&k)
	w.dir.caller = func(directory.CallerClaim) (string, error) { return "caller", nil }
	w.ask("GET /t/a/x?q HTTP/1.1\r\nHost: h\r\nPinboard-From: /t/me\r\nPinboard-Session: s\r\nPinboard-Session-Secret: c\r\n\r\n")
	got := s.deliveries()[0]
	if !strings.HasPrefix(got.head, "GET /base/t/a/x?q HTTP/1.1\r\n") || got.line("X-Pinned-Proxy-Secret") != "hush" ||
		got.line("Pinboard-Caller") != "/t/me" || got.line("Pinboard-Subrequest-Depth") != "1" {
		t.Errorf("worker got %q", got.head)
	}
	if got := w.ask(get("/t/_pinned/drain")); got.line("Pinboard-Error") != "invalid_id" {
		t.Errorf("client got %q", got.head)
	}
}

func TestInstanceCalls(t *testing.T) {
	// A published test of the client compares these bodies whole.
	exactly := map[string]string{
		"invalid_session_secret": `{"error":"invalid session secret"}`,
		"caller_mismatch":        `{"error":"caller placement mismatch"}`,
	}
	const from, session, secret = "Pinboard-From: /t/me\r\n", "Pinboard-Session: s-me\r\n", "Pinboard-Session-Secret: hush\r\n"
	for _, test := range []struct{ name, fields, code, attestation string }{
		{"proven", from + session + secret, "", "/t/me.1"},
		{"proven with depth", from + session + secret + "Pinboard-Subrequest-Depth: 50\r\n", "", "/t/me.50"},
		{"none", "", "", ".0"},
		{"depth alone", "Pinboard-Subrequest-Depth: 99\r\n", "", ".0"},
		{"no secret", from + session, "invalid_session_secret", ""},
		{"no session", from + secret, "invalid_session_secret", ""},
		{"no caller", session + secret, "invalid_session_secret", ""},
		{"two callers", from + from + session + secret, "invalid_session_secret", ""},
		{"wrong secret", from + session + "Pinboard-Session-Secret: x\r\n", "invalid_session_secret", ""},
		{"another's instance", "Pinboard-From: /t/other\r\n" + session + secret, "caller_mismatch", ""},
		{"no instance", "Pinboard-From: /t\r\n" + session + secret, "caller_mismatch", ""},
		{"a path behind it", "Pinboard-From: /t/me/x\r\n" + session + secret, "caller_mismatch", ""},
		{"depth 51", from + session + secret + "Pinboard-Subrequest-Depth: 51\r\n", "depth_exceeded", ""},
		{"depth beyond numbers", from + session + secret + "Pinboard-Subrequest-Depth: 99999999999999999999\r\n", "depth_exceeded", ""},
		{"depth 0", from + session + secret + "Pinboard-Subrequest-Depth: 0\r\n", "invalid_depth", ""},
		{"depth no number", from + session + secret + "Pinboard-Subrequest-Depth: +1\r\n", "invalid_depth", ""},
		{"two depths", from + session + secret + "Pinboard-Subrequest-Depth: 1\r\nPinboard-Subrequest-Depth: 1\r\n", "invalid_depth", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			s := newScripted(t, replying(okAnswer))
			w.dir.place(s.Worker)
			w.dir.caller = func(c directory.CallerClaim) (string, error) {
				switch {
				case c.Session != "s-me" || c.Secret != "hush":
					return "", pinboard.InvalidSessionSecret
				case c.Namespace != "/t" || c.ID != "me":
					return "", pinboard.CallerMismatch
				}
				return "s-me", nil
			}
			got := w.ask("GET /t/a HTTP/1.1\r\nHost: h\r\n" + test.fields + "\r\n")
			if got.line("Pinboard-Error") != test.code {
				t.Fatalf("client got %q", got.head)
			}
			if want := exactly[test.code]; want != "" && got.body != want {
				t.Errorf("body %q, want %q", got.body, want)
			}
			if test.code != "" {
				if len(s.deliveries())+len(w.dir.resolved()) > 0 {
					t.Error("a refused call was resolved")
				}
				return
			}
			if got := s.deliveries()[0].line("Pinboard-Attestation"); got != "att."+s.Session+"."+test.attestation {
				t.Errorf("attestation %q", got)
			}
			if caller := w.dir.resolved()[0].Caller; (caller == "s-me") != (test.attestation != ".0") {
				t.Errorf("resolved for caller %q", caller)
			}
		})
	}
}

// A request of another fleet passes once, marked; marked it has come full circle.
func TestARequestOfAnotherFleetPassesOnce(t *testing.T) {
	token := string(attest.Append(nil, "secret", "elsewhere", "", 0, time.Now()))
	foreign, hops := "Pinboard-Attestation: "+token+"\r\n", "Pinboard-Hops: 1\r\n"
	unsigned := "Pinboard-Attestation: " + token[:strings.LastIndexByte(token, '.')] + ".\r\n"
	for _, test := range []struct{ name, fields, status, hops string }{
		{"once", foreign, "200", "1"},
		{"twice", foreign + hops, "508", ""},
		{"twice, any signature", hops + unsigned, "508", ""},
		{"twice, among others", "Pinboard-Attestation: x\r\n" + foreign + hops, "508", ""},
		{"only the mark", hops, "200", ""},
		{"no attestation of any fleet", "Pinboard-Attestation: forged\r\n" + hops, "200", ""},
	} {
		w := newWorld(t)
		s := newScripted(t, replying(okAnswer))
		w.dir.place(s.Worker)
		got := w.ask("GET /t/a HTTP/1.1\r\nHost: h\r\n" + test.fields + "\r\n")
		if got.head[9:12] != test.status {
			t.Errorf("%s: %q", test.name, got.head)
		}
		if d := s.deliveries(); test.status == "200" && (len(d) != 1 || d[0].line("Pinboard-Hops") != test.hops || strings.Contains(d[0].head, token)) {
			t.Errorf("%s: the worker got %q", test.name, d)
		}
	}
}

func TestOwnAttestationIsALoop(t *testing.T) {
	w := newWorld(t)
	w.dir.place(newScripted(t, replying(okAnswer)).Worker)
	if got := w.ask("GET /t/a HTTP/1.1\r\nHost: h\r\nPinboard-Attestation: att.x\r\n\r\n"); !strings.HasPrefix(got.head, "HTTP/1.1 508 ") {
		t.Errorf("client got %q", got.head)
	}
	if got := w.ask("GET /t/a HTTP/1.1\r\nHost: h\r\nPinboard-Attestation: foreign\r\n\r\n"); got.body != "ok" {
		t.Errorf("client got %q", got)
	}
}

func TestMaxForwards(t *testing.T) {
	w := newWorld(t)
	s := newScripted(t, replying(okAnswer))
	w.dir.place(s.Worker)
	options := func(n string) string { return "OPTIONS /t/a HTTP/1.1\r\nHost: h\r\nMax-Forwards: " + n + "\r\n\r\n" }
	c := w.dial()
	c.send(options("0"))
	if head, err := readHead(c.r); err != nil || !strings.HasPrefix(head, "HTTP/1.1 204 ") {
		t.Errorf("0: %q, %v", head, err)
	}
	if n := len(w.dir.resolved()); n != 0 {
		t.Error("0 was resolved")
	}
	for n, want := range map[string]string{"1": "0", "10": "9", "x": "x"} {
		c.send(options(n))
		c.answer()
		got := s.deliveries()
		if v := got[len(got)-1].line("Max-Forwards"); v != want {
			t.Errorf("%s became %q", n, v)
		}
	}
	c.send(strings.Replace(options("0"), "OPTIONS", "GET", 1))
	if got := c.answer(); got.body != "ok" {
		t.Errorf("GET: %q", got)
	}
}

func TestAddressesAreJudgedBeforeTheStore(t *testing.T) {
	w := newWorld(t)
	w.dir.resolve = func(_ int, r directory.Request) (directory.Placement, error) {
		t.Errorf("resolved %+v", r)
		return directory.Placement{}, pinboard.NoLiveBackends
	}
	for request, code := range map[string]string{
		get("/t/a%41"):         "invalid_id",
		get("/t/.."):           "invalid_id",
		get("/t/%2e%2e/x"):     "invalid_id",
		get("/t/a/../b"):       "path_leaves_instance",
		get("/t/a/%2e%2e%2fb"): "path_leaves_instance",
		strings.Replace(get("/t/a/_wake"), "GET", "POST", 1):   "not_found",
		strings.Replace(get("/t/a/_w%61ke"), "GET", "POST", 1): "not_found",
		"OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n":                "bad_request",
	} {
		if got := w.ask(request); got.line("Pinboard-Error") != code {
			t.Errorf("%q: %q, want %s", request, got.head, code)
		}
	}
}
