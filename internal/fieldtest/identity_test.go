package fieldtest

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"pinboard/internal/rawtest"
)

// forged is everything a client may say about where it comes from.
var forged = []string{
	"X-Forwarded-For: 6.6.6.6", "X-Forwarded-For: " + strings.Repeat("7.7.7.7, ", 99) + "8.8.8.8", "X-Forwarded-Host: evil", "X-Forwarded-Proto: gopher",
	"Forwarded: for=6.6.6.6", "X-Real-IP: 6.6.6.6", "X_Forwarded_For: 6.6.6.6", "X_Forwarded-For: 6.6.6.6", "X_Forwarded_Host: evil", "X_Forwarded_Proto: gopher",
	"X_Real_IP: 6.6.6.6",
}

// FC-33: from a peer that is not trusted everything is replaced; a trusted
// one is appended to and believed. Underscore forms never pass.
func TestFC33ForwardingHeadersByOnePolicy(t *testing.T) {
	t.Parallel()
	for name, trial := range map[string]struct {
		trusted          string
		from, host, prot []string
		others           bool // Forwarded and X-Real-IP pass
	}{
		"untrusted": {"private", []string{"127.0.0.1"}, []string{"h"}, []string{"http"}, false},
		"none":      {"none", []string{"127.0.0.1"}, []string{"h"}, []string{"http"}, false},
		"trusted": {"127.0.0.0/8", []string{"6.6.6.6, " + strings.Repeat("7.7.7.7, ", 99) + "8.8.8.8, 127.0.0.1"},
			[]string{"evil"}, []string{"gopher"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := start(t, "PINBOARD_TRUSTED_PROXIES="+trial.trusted)
			w := n.worker(rawtest.Always(rawtest.Response(200, "ok")))
			n.do(ask("GET", "/t/a", forged...))
			got := w.last()
			for field, want := range map[string][]string{"X-Forwarded-For": trial.from, "X-Forwarded-Host": trial.host, "X-Forwarded-Proto": trial.prot} {
				if v := got.Values(field); !slices.Equal(v, want) {
					t.Errorf("%s: %q, want %q", field, v, want)
				}
			}
			if got.Has("Forwarded") != trial.others || got.Has("X-Real-IP") != trial.others || strings.Contains(strings.ToLower(string(got.Head)), "_for") {
				t.Errorf("%q", got.Head)
			}
			n.do(get("/t/a"))
			got = w.last()
			if got.Get("X-Forwarded-For") != "127.0.0.1" || got.Get("X-Forwarded-Host") != "h" || got.Get("X-Forwarded-Proto") != "http" {
				t.Errorf("without any: %q", got.Head)
			}
		})
	}
}

// FC-33: new ids of one client prefer one worker whatever the client claims,
// and follow the rightmost untrusted hop of a trusted peer.
func TestFC33ForgedAddressesDoNotMoveAffinity(t *testing.T) {
	t.Parallel()
	spread := func(t *testing.T, trusted string, fields func(i int) []string) (first, second int) {
		n := start(t, "PINBOARD_TRUSTED_PROXIES="+trusted, "PINBOARD_BALANCE_FACTOR=1000")
		a := n.worker(rawtest.Always(rawtest.Response(200, "ok")))
		b := rawtest.NewWorker(t, rawtest.Always(rawtest.Response(200, "ok")))
		b.Register(n.url, token, 100*time.Millisecond, "/t")
		time.Sleep(1500 * time.Millisecond) // the list of workers is a second old at most
		a.skip = a.Deliveries()
		c := n.dial()
		for i := range 200 {
			if i == 100 { // a preference ends with the headroom; a beat reports it anew
				time.Sleep(time.Second)
			}
			c.Write(ask("GET", fmt.Sprint("/t/new", i), fields(i)...))
			if m := c.Response("GET"); m.Status() != 200 {
				t.Fatalf("%q", m.Raw)
			}
		}
		return len(a.got()), b.Deliveries()
	}
	claim := func(i int) []string { return []string{fmt.Sprintf("X-Forwarded-For: 9.9.%d.%d", i%7, i)} }
	t.Run("untrusted", func(t *testing.T) {
		t.Parallel()
		if a, b := spread(t, "none", claim); a != 0 && b != 0 {
			t.Errorf("the ids went %d : %d", a, b)
		}
	})
	t.Run("trusted", func(t *testing.T) {
		t.Parallel()
		if a, b := spread(t, "127.0.0.1", claim); a < 50 || b < 50 {
			t.Errorf("the ids went %d : %d", a, b)
		}
	})
	t.Run("trusted, forged in front", func(t *testing.T) {
		t.Parallel()
		same := func(i int) []string { return []string{claim(i)[0] + ", 5.5.5.5"} }
		if a, b := spread(t, "127.0.0.1", same); a != 0 && b != 0 {
			t.Errorf("the ids went %d : %d", a, b)
		}
	})
}

// FC-57: whatever a client calls its fields, the worker hears one epoch and
// one attestation, Pinboard's.
func TestFC57InternalFieldsAreNeverTheClients(t *testing.T) {
	t.Parallel()
	n := start(t)
	w := n.worker(rawtest.Always(rawtest.Response(200, "ok")))
	n.do(get("/t/a"))
	epoch := w.last().Get("Pinboard-Epoch")
	internal := regexp.MustCompile(`(?i)^(x[-_])?(pinboard|pinned)[-_]`)
	for _, fields := range [][]string{
		{"Pinboard-Epoch: 999"}, {"Pinboard-Epoch: 999", "Pinboard-Epoch: 998"}, {"pinboard-epoch: 999"}, {"PINBOARD-EPOCH: 999"},
		{"Pinboard_Epoch: 999"}, {"pinboard_epoch: 999", "Pinboard-Attestation: x", "Pinboard_Attestation: y"}, {"Pinned-Refusal: lease-unhealthy"},
		{"Pinned_Refusal: lease-unhealthy", "X-Pinned-Proxy-Secret: s", "X_Pinned_Proxy_Secret: s", "X-Pinned_Proxy-Secret: s", "Pinned-Caller: /t/b"},
		{"Pinboard-Caller: /t/b", "Pinboard-Anything: 1", "Pinboard-Error: x"},
	} {
		for _, method := range []string{"GET", "POST"} {
			if m := n.do(ask(method, "/t/a", fields...)); m.Status() != 200 {
				t.Errorf("%q: %q", fields, m.Raw)
			}
			got := w.last()
			if !slices.Equal(got.Values("Pinboard-Epoch"), []string{epoch}) || len(got.Values("Pinboard-Attestation")) != 1 {
				t.Errorf("%q arrived as %q", fields, got.Head)
			}
			for _, f := range got.Fields {
				if internal.MatchString(f.Name) && f.Name != "Pinboard-Epoch" && f.Name != "Pinboard-Attestation" {
					t.Errorf("%q: the worker got %s", fields, f.Name)
				}
			}
		}
	}
	for _, path := range []string{"/_pinned/evict", "/_pinned/wind_down", "//_pinned/evict", "/%5fpinned/evict"} {
		n.stops(w, post(path, "{}"), 404, "unknown_namespace")
	}
	for _, path := range []string{"/t/a/../../_pinned/evict", "/t/a/%2e%2e/%2e%2e/_pinned/evict", `/t/a/..\..\_pinned/evict`} {
		n.stops(w, post(path, "{}"), 400, "path_leaves_instance")
	}
	n.stops(w, post("/t/../_pinned/evict", "{}"), 400, "invalid_id")
	for _, path := range []string{"/t/a/_wake", "/t/a/%5fwake", "/t/a/_wak%65"} {
		n.stops(w, post(path, ""), 404, "not_found")
	}
}

// FC-57: the mark of a refusal counts in its exact form only, is never shown,
// moves an id once and cannot bounce it for ever.
func TestFC57RefusalsCountOnceAndNeverShow(t *testing.T) {
	t.Parallel()
	n := start(t)
	const mark = "Pinned-Refusal: lease-unhealthy"
	t.Run("said by instance code", func(t *testing.T) {
		next := make(chan string, 1)
		w := n.worker(func(c *rawtest.Conn) {
			for {
				if _, ok := c.Request(); !ok {
					return
				}
				c.Write(<-next)
			}
		}, "/said")
		for _, status := range []int{200, 500, 404, 403} {
			before := len(w.got())
			next <- rawtest.Response(status, "app", mark, "X-App: 1")
			m := n.do(get("/said/a"))
			if m.Status() != status || string(m.Body) != "app" || m.Has("Pinned-Refusal") || !m.Has("X-App") || len(w.got()) != before+1 {
				t.Errorf("%d: %q, %d deliveries", status, m.Raw, len(w.got())-before)
			}
		}
		for _, almost := range []string{"Pinned-Refusal: other", "Pinned-Refusal: Lease-Unhealthy", mark + "\r\n" + mark, "Pinned_Refusal: lease-unhealthy"} {
			next <- rawtest.Response(503, "app", almost)
			if m := n.do(get("/said/a")); string(m.Body) != "app" || m.Has("Pinned-Refusal") || m.Has("Pinboard-Error") {
				t.Errorf("%q: %q", almost, m.Raw)
			}
		}
		next <- strings.Replace(switching, "\r\n\r\n", "\r\n"+mark+"\r\n\r\n", 1)
		c := n.dial()
		c.Write(strings.Replace(handshake, "/t/a", "/said/a", 1))
		if m := c.Head(); m.Status() != 101 || m.Has("Pinned-Refusal") {
			t.Errorf("101: %q", m.Raw)
		}
	})
	refuse := rawtest.Always(rawtest.Response(503, "", mark, "Retry-After: 1"))
	t.Run("everybody refuses", func(t *testing.T) {
		first := n.worker(refuse, "/full")
		second := rawtest.NewWorker(t, refuse)
		second.Register(n.url, token, time.Second, "/full")
		time.Sleep(1500 * time.Millisecond)
		for i := range 5 {
			before := first.Deliveries() + second.Deliveries()
			m := n.do(get(fmt.Sprint("/full/new", i)))
			if !ours(m, 503, "worker_refused") || m.Get("Retry-After") == "" || m.Has("Pinned-Refusal") {
				t.Errorf("%q", m.Raw)
			}
			if d := first.Deliveries() + second.Deliveries() - before; d != 2 {
				t.Errorf("delivered %d times", d)
			}
			before = first.Deliveries() + second.Deliveries()
			if m := n.do(post(fmt.Sprint("/full/body", i), "x")); !ours(m, 503, "worker_refused") {
				t.Errorf("%q", m.Raw)
			}
			if d := first.Deliveries() + second.Deliveries() - before; d != 1 {
				t.Errorf("a body was delivered %d times", d)
			}
		}
	})
	t.Run("one refuses", func(t *testing.T) {
		first := n.worker(refuse, "/half")
		second := rawtest.NewWorker(t, rawtest.Always(rawtest.Response(200, "ok")))
		second.Register(n.url, token, time.Second, "/half")
		time.Sleep(1500 * time.Millisecond)
		for i := range 20 {
			if m := n.do(get(fmt.Sprint("/half/new", i))); m.Status() != 200 {
				t.Errorf("%q", m.Raw)
			}
		}
		_ = first
	})
}

// FC-59: what Pinboard says of its own tells nobody an address, an id of
// somebody else, a token or a library's words.
func TestFC59OwnAnswersTellNothing(t *testing.T) {
	t.Parallel()
	n := start(t, "PINBOARD_RESPONSE_TIMEOUT_MS=200", "PINBOARD_CONNECT_TIMEOUT_MS=200")
	w := n.worker(func(c *rawtest.Conn) {
		for {
			m, ok := c.Request()
			if !ok {
				return
			}
			switch {
			case strings.HasSuffix(m.Target(), "/secret-neighbour"):
				c.Write(rawtest.Response(200, "ok"))
			case strings.HasSuffix(m.Target(), "/nonsense"):
				c.Write("nonsense\r\n\r\n")
				return
			case strings.HasSuffix(m.Target(), "/late"):
				c.AwaitEnd(patience)
				return
			default:
				return
			}
		}
	})
	n.do(get("/t/secret-neighbour"))
	_, port, _ := strings.Cut(w.Addr(), ":")
	forbidden := regexp.MustCompile(`127\.0\.0\.1|` + port + `|secret-neighbour|` + w.ID + `|` + w.Secret + `|` + w.ClientID + `|` + token +
		`|memory:|redis|dial|tcp|EOF|reset by|broken pipe|i/o|goroutine|\.go:\d|go1\.|panic|net/http|Server:`)
	version := regexp.MustCompile(`"?version"?[:=]"[^"]*"`) // of the node: told on purpose, and a number may look like the port
	// Two refusals of instance calls hold no code (docs/protocol.md "Refusals").
	shape := regexp.MustCompile(`^\{"error":("invalid session secret"|"caller placement mismatch"|"[a-zA-Z0-9 ,]+","code":"[a-z_0-9]+"(,"retryAfterMs":\d+)?)\}\n?$`)
	statuses := map[int]bool{}
	check := func(request string) {
		c := n.dial()
		c.Write(request)
		m := c.Final(strings.Fields(request)[0])
		c.Close()
		statuses[m.Status()] = true
		if leak := forbidden.FindString(version.ReplaceAllString(string(m.Raw), "")); leak != "" {
			t.Errorf("%.100q tells %q: %q", request, leak, m.Raw)
		}
		if m.Get("Pinboard-Error") != "" && m.Get("Content-Type") != "application/json" || m.Get("Pinboard-Error") != "" && !shape.Match(m.Body) {
			t.Errorf("%.100q: %q", request, m.Raw)
		}
	}
	for _, request := range []string{
		get("/t/a"), get("/t/a/nonsense"), get("/t/a/late"), get("/t/%61"), get("/nowhere/a"), get("/t/a/../x"), get("/t/a#"), ask("TRACE", "/t/a"),
		"GET /t/a HTTP/1.1\r\n\r\n", "GET /t/a HTTP/3.7\r\nHost: h\r\n\r\n", "nonsense\r\n\r\n", ask("POST", "/t/a", "Transfer-Encoding: gzip, chunked"),
		get("/t/" + strings.Repeat("x", 257)), get("/t/a/" + strings.Repeat("x", 70<<10)), ask("GET", "/t/a", "X: "+strings.Repeat("x", 70<<10)),
		get("/registry/workers"), get("/registry/nothing"), get("/healthz"), get("/readyz"), ask("GET", "/t/a", "Pinboard-From: /t/b"),
	} {
		check(request)
	}
	w.Refuse()
	time.Sleep(50 * time.Millisecond)
	check(get("/t/secret-neighbour"))
	check(get("/t/fresh"))
	for _, s := range []int{200, 400, 401, 404, 405, 414, 431, 501, 502, 504, 505} {
		if !statuses[s] {
			t.Errorf("the trial saw no %d", s)
		}
	}
	for l := range strings.Lines(n.metrics()) {
		if strings.HasPrefix(l, "pinboard_") && forbidden.MatchString(version.ReplaceAllString(l, "")) {
			t.Errorf("/metrics tells %q", l)
		}
	}
}
