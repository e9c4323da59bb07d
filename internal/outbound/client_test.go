package outbound

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"pinboard/api"
	"pinboard/internal/wait"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func serve(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

func text(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		io.WriteString(w, body)
	}
}

// A worker as the real client is: it answers the pair it posted, to whoever
// knows its secret.
func worker(header string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get(header) != "k":
			http.Error(w, `{"detail":"invalid proxy secret"}`, http.StatusForbidden)
		case r.URL.Path != api.PathChallenge || r.URL.Query().Get("challenge") != "c&=%":
			http.NotFound(w, r)
		default:
			io.WriteString(w, `{"value":"v"}`)
		}
	}
}

// A worker's owner hears whether something answered, a prober no more than
// that; the log has the rest.
func TestProve(t *testing.T) {
	const wrongly = "challenge answered wrongly"
	for name, c := range map[string]struct {
		worker http.HandlerFunc
		want   Outcome
		detail string
		told   string
	}{
		"today's client":   {worker(api.HeaderSecret), Proved, "", ""},
		"0.2.0-0.3.1":      {worker(api.HeaderLegacySecret), Proved, "", ""},
		"pair replaced":    {text(404, `{"detail":"unknown challenge"}`), Unproved, "answered 404", wrongly},
		"broken":           {text(500, ``), Unproved, "answered 500", wrongly},
		"gateway":          {text(503, ``), Unproved, "answered 503", wrongly},
		"odd success":      {text(204, ``), Unproved, "answered 204", wrongly},
		"other process":    {text(403, ``), Refuted, "refused", wrongly},
		"wrong value":      {text(200, `{"value":"x"}`), Refuted, "answered wrongly", wrongly},
		"empty value":      {text(200, `{"value":""}`), Refuted, "answered wrongly", wrongly},
		"value no string":  {text(200, `{"value":1}`), Refuted, "answered wrongly", wrongly},
		"a web page":       {text(200, `<html>`), Refuted, "answered wrongly", wrongly},
		"echo of the pair": {text(200, `{"challenge":"c&=%"}`), Refuted, "answered wrongly", wrongly},
		"a huge page":      {text(200, strings.Repeat(" ", 1<<20)+`{"value":"v"}`), Refuted, "answer too large", wrongly},
		"cut short": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "13")
			io.WriteString(w, `{"va`)
		}, Unproved, "not answered", "challenge not answered"},
	} {
		got := New(Config{}).Prove(t.Context(), Probe{serve(t, c.worker), "k", "c&=%", "v"})
		if got.Outcome != c.want || got.Detail != c.detail || got.Told() != c.told {
			t.Errorf("%s: %+v, told %q", name, got, got.Told())
		}
	}
}

// A redirect is never followed, wherever it leads.
func TestNoRedirects(t *testing.T) {
	var hits atomic.Int64
	elsewhere := serve(t, func(w http.ResponseWriter, _ *http.Request) { hits.Add(1); io.WriteString(w, `{"value":"v"}`) })
	for _, status := range []int{301, 302, 303, 307, 308} {
		url := serve(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, elsewhere+r.URL.String(), status) })
		c := New(Config{})
		if got := c.Prove(t.Context(), Probe{url, "k", "c", "v"}); !got.is(Unproved, true, "answered with a redirect") {
			t.Errorf("%d: %+v", status, got)
		}
		if got := c.Push(t.Context(), Push{URL: url, Secret: "k", Path: api.PathDrain}); got.Delivered || got.Attempts != 1 {
			t.Errorf("%d: push %+v", status, got)
		}
		if got := c.Stats(t.Context(), []StatsTarget{{url, "k"}}); got[0].Status != "failed" {
			t.Errorf("%d: stats %+v", status, got)
		}
	}
	if n := hits.Load(); n != 0 {
		t.Errorf("followed %d times", n)
	}
}

// A name is judged by what it resolves to, at the moment of dialling.
func TestDialGuard(t *testing.T) {
	var hits atomic.Int64
	url := serve(t, func(http.ResponseWriter, *http.Request) { hits.Add(1) })
	url = strings.Replace(url, "127.0.0.1", "localhost", 1)
	c := New(Config{Policy: Policy{Deny: prefixes("127.0.0.0/8", "::1/128")}})
	if got := c.Prove(t.Context(), Probe{url, "k", "c", "v"}); !got.is(Unproved, false, "address refused") {
		t.Errorf("%+v", got)
	}
	if got := c.Push(t.Context(), Push{URL: url, Path: api.PathDrain}); got.Delivered || got.Attempts != 1 || got.Reason != "address refused" {
		t.Errorf("%+v", got)
	}
	if hits.Load() != 0 {
		t.Error("connected")
	}
}

// The environment's proxy is not asked, and an untrusted certificate is no proof.
func TestNoProxyAndCertificates(t *testing.T) {
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	if got := New(Config{}).Prove(t.Context(), Probe{serve(t, worker(api.HeaderSecret)), "k", "c&=%", "v"}); got.Outcome != Proved {
		t.Error(got.Detail)
	}
	s := httptest.NewUnstartedServer(worker(api.HeaderSecret))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	defer s.Close()
	if got := New(Config{}).Prove(t.Context(), Probe{s.URL, "k", "c&=%", "v"}); !got.is(Unproved, false, "certificate not trusted") {
		t.Errorf("%+v", got)
	}
	trusted := New(Config{TLS: s.Client().Transport.(*http.Transport).TLSClientConfig.Clone()})
	if got := trusted.Prove(t.Context(), Probe{s.URL, "k", "c&=%", "v"}); got.Outcome != Proved {
		t.Error(got.Detail)
	}
}

// Silence, a slow trickle and a closed port end in time and name no address.
func TestNobodyThere(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	closed, _ := net.Listen("tcp", "127.0.0.1:0")
	closed.Close()
	for url, want := range map[string]string{
		"http://" + silent.Addr().String(): "not answered in time",
		"http://" + closed.Addr().String(): "not answered",
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		if got := New(Config{}).Prove(ctx, Probe{url, "k", "c", "v"}); !got.is(Unproved, false, want) || got.Told() != "challenge not answered" {
			t.Errorf("%s: %+v, told %q", url, got, got.Told())
		}
	}
}

// The probe's own bound holds without any deadline of the caller's.
func TestProbeTakesTwoSecondsAtMost(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 2 s")
	}
	t.Parallel()
	drip := serve(t, func(w http.ResponseWriter, r *http.Request) {
		for range 100 {
			if _, err := io.WriteString(w, " "); err != nil || r.Context().Err() != nil {
				return
			}
			w.(http.Flusher).Flush()
			wait.For(r.Context(), 50*time.Millisecond)
		}
	})
	began := time.Now()
	got := New(Config{}).Prove(context.Background(), Probe{drip, "k", "c", "v"})
	if took := time.Since(began); got.Outcome != Unproved || took > 4*time.Second {
		t.Errorf("%+v after %v", got, took)
	}
}

// Every probe opens its own connection: the URL may lead elsewhere by now.
func TestProbesKeepNoConnection(t *testing.T) {
	var conns atomic.Int64
	s := httptest.NewUnstartedServer(worker(api.HeaderSecret))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			conns.Add(1)
		}
	}
	s.Start()
	defer s.Close()
	c := New(Config{})
	for range 3 {
		c.Prove(t.Context(), Probe{s.URL, "k", "c&=%", "v"})
	}
	if n := conns.Load(); n != 3 {
		t.Errorf("%d connections", n)
	}
}

// Failing workers cost their own answers only.
func TestStats(t *testing.T) {
	var at, peak atomic.Int64
	good := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if n := at.Add(1); n > peak.Load() {
			peak.Store(n)
		}
		defer at.Add(-1)
		time.Sleep(2 * time.Millisecond)
		if r.URL.Path != "/base/_pinned/stats" || r.Header.Get(api.HeaderSecret) != "k" {
			http.Error(w, "", http.StatusForbidden)
			return
		}
		io.WriteString(w, `{"draining":false}`)
	})
	targets := []StatsTarget{
		{serve(t, text(500, "boom")), "k"}, {serve(t, text(404, "")), "k"}, {serve(t, text(200, "[]")), "k"},
		{serve(t, text(200, `{"a":"`+strings.Repeat("x", statsBody)+`"}`)), "k"}, {"http://127.0.0.1:1", "k"},
	}
	for range 60 {
		targets = append(targets, StatsTarget{good + "/base", "k"})
	}
	got := New(Config{}).Stats(t.Context(), targets)
	for i, want := range []Stats{{Status: "failed", Reason: "answered 500"}, {Status: "unsupported"}, {Status: "failed", Reason: "answered wrongly"}, {Status: "failed", Reason: "answer too large"}, {Status: "failed", Reason: "not answered"}} {
		if fmt.Sprint(got[i]) != fmt.Sprint(want) {
			t.Errorf("%d: %+v", i, got[i])
		}
	}
	for i := 5; i < len(got); i++ {
		if got[i].Status != "ok" || string(got[i].Stats) != `{"draining":false}` {
			t.Errorf("%d: %+v", i, got[i])
		}
	}
	if p := peak.Load(); p > statsAtOnce {
		t.Errorf("%d at once", p)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got := New(Config{}).Stats(ctx, targets[:2]); got[0].Reason != "not answered in time" {
		t.Errorf("%+v", got)
	}
}

// The answers of one fan-out share their bytes; what came to nothing takes none.
func TestStatsShareTheirBytes(t *testing.T) {
	const big, each = 10 << 10, 3 << 10
	c := New(Config{})
	c.statsBytes = big
	left := new(atomic.Int64)
	left.Store(big)
	for _, w := range []http.HandlerFunc{
		text(200, `{"a":"`+strings.Repeat("x", 2*big)+`"}`), text(500, strings.Repeat("x", big-1)), text(404, strings.Repeat("x", big-1)), text(200, strings.Repeat("x", big-1)),
	} {
		if got := c.stats(t.Context(), StatsTarget{serve(t, w), "k"}, left); got.Status == "ok" || left.Load() != big {
			t.Errorf("%+v, %d bytes left", got, left.Load())
		}
	}
	good := StatsTarget{serve(t, text(200, `{"a":"`+strings.Repeat("<", each-8)+`"}`)), "k"}
	held, ok := 0, 0
	for i, got := range c.Stats(t.Context(), slices.Repeat([]StatsTarget{good}, 40)) {
		held += len(got.Stats)
		switch {
		case got.Status == "ok":
			ok++
		case got.Reason != reasonTooLarge:
			t.Errorf("%d: %.60v", i, got)
		}
	}
	if ok != big/each || held != ok*each {
		t.Errorf("%d answers hold %d bytes", ok, held)
	}
}

func TestPush(t *testing.T) {
	d := 10 * time.Second
	var bodies []map[string]any
	fails := 0
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		var body map[string]any
		if json.NewDecoder(r.Body).Decode(&body) != nil || r.Method != "POST" || r.URL.Path != "/t/_pinned/wind_down" || r.Header.Get(api.HeaderLegacySecret) != "k" {
			w.WriteHeader(400)
			return
		}
		if bodies = append(bodies, body); len(bodies) <= fails {
			w.WriteHeader(503)
			return
		}
		io.WriteString(w, `{"ok":true}`)
	})
	push := Push{URL: url + "/t", Secret: "k", Path: api.PathWindDown, ID: "a", Deadline: &d}
	if got := New(Config{}).Push(t.Context(), push); got != (PushResult{Delivered: true, Attempts: 1}) || bodies[0]["id"] != "a" {
		t.Errorf("%+v %v", got, bodies)
	}
	bodies, fails = nil, 2
	got := New(Config{}).Push(t.Context(), push)
	if !got.Delivered || got.Attempts != 3 {
		t.Errorf("%+v", got)
	}
	if first, last := bodies[0]["deadline"].(float64), bodies[2]["deadline"].(float64); first > 10 || last > first-0.5 {
		t.Errorf("the deadline must age between tries: %v, %v", first, last)
	}
	bodies, fails = nil, 9
	if got := New(Config{}).Push(t.Context(), push); got != (PushResult{Attempts: 3, Reason: "answered 503"}) {
		t.Errorf("%+v", got)
	}
	for status, want := range map[int]PushResult{400: {Attempts: 1, Reason: "answered 400"}, 403: {Attempts: 1, Reason: "refused"}} {
		if got := New(Config{}).Push(t.Context(), Push{URL: serve(t, text(status, "")), Path: api.PathDrain}); got != want {
			t.Errorf("%d: %+v", status, got)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got := New(Config{}).Push(ctx, push); got.Attempts != 0 {
		t.Errorf("%+v", got)
	}
}

// The bytes of a probe, with a base path kept as it was registered.
func TestProbeOnTheWire(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	seen := make(chan *http.Request, 1)
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		r, err := http.ReadRequest(bufio.NewReader(conn))
		if err == nil {
			seen <- r
		}
	}()
	New(Config{}).Prove(t.Context(), Probe{"http://" + l.Addr().String() + "/b%2Fx", "k", "c", "v"})
	r := <-seen
	if r.RequestURI != "/b%2Fx/_pinned/challenge?challenge=c" || r.Header.Get("Accept-Encoding") != "" || r.Host != l.Addr().String() {
		t.Errorf("%s %v %s", r.RequestURI, r.Header, r.Host)
	}
}

// is compares all but the error behind it.
func (p Proof) is(outcome Outcome, answered bool, detail string) bool {
	p.Err = nil
	return p == Proof{outcome, answered, detail, nil}
}
