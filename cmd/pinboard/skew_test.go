package main

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"pinboard/internal/ownership"
	"pinboard/internal/rawtest"
)

// Only a Date that is off by more than its own grain and a slow answer names a
// clock, in either direction.
func TestSkewIsJudged(t *testing.T) {
	log, out := jsonLog()
	now := time.Unix(1_800_000_000, 700_000_000)
	noted := time.Duration(-1)
	s := &skews{log: log, now: func() time.Time { return now }, note: func(session string, skew time.Duration) { noted = skew }}
	for date, want := range map[string]time.Duration{
		"": -1, "moon": -1,
		now.UTC().Format(http.TimeFormat):                        0,
		now.Add(-5 * time.Second).UTC().Format(http.TimeFormat):  0,
		now.Add(5 * time.Second).UTC().Format(http.TimeFormat):   0,
		now.Add(-90 * time.Second).UTC().Format(http.TimeFormat): -90 * time.Second,
		now.Add(time.Hour).UTC().Format(http.TimeFormat):         time.Hour - time.Second, // whole seconds
	} {
		noted = -1
		s.mistrusted(&ownership.Worker{Session: "s1", ClientID: "c1", URL: "http://w"}, date)
		if noted != want {
			t.Errorf("Date %q: %v, want %v", date, noted, want)
		}
	}
	if n := strings.Count(out.String(), `"session":"s1","client":"c1","url":"http://w","skewMs":`); n != 1 {
		t.Errorf("%d lines:\n%s", n, out)
	}
}

// A worker whose clock is an hour ahead refuses every attestation: the node
// names the clock in its log and in the list of workers, until it serves again.
func TestAWorkersClockIsNamed(t *testing.T) {
	t.Parallel()
	p := serve(t).ready()
	var off atomic.Int64 // seconds; 0: it serves
	w := rawtest.NewWorker(t, func(c *rawtest.Conn) {
		for {
			if _, ok := c.Request(); !ok {
				return
			}
			if s := off.Load(); s != 0 {
				date := time.Now().Add(time.Duration(s) * time.Second).UTC().Format(http.TimeFormat)
				c.Write(fmt.Sprintf("HTTP/1.1 403 Forbidden\r\ndate: %s\r\nContent-Length: 32\r\n\r\n{\"detail\":\"invalid attestation\"}", date))
				continue
			}
			c.Write(rawtest.Response(200, "ok"))
		}
	})
	s := p.register(w, "/t")
	workers := func() string { _, text := p.getAs(secret, "/registry/workers"); return text }
	if status, body := p.get("/t/a"); status != 200 || strings.Contains(workers(), "clockSkewMs") {
		t.Fatalf("%d %s", status, body)
	}
	off.Store(3600)
	for range 3 {
		if status, _ := p.get("/t/a"); status != 503 {
			t.Errorf("status %d", status)
		}
	}
	l := p.line("worker refuses attestations, its clock and this node's differ")
	if skew := l["skewMs"].(float64); l["session"] != s.ID || l["url"] != w.URL() || skew < 3_590_000 || skew > 3_600_000 {
		t.Errorf("%v", l)
	}
	if !strings.Contains(workers(), `"clockSkewMs":35`) && !strings.Contains(workers(), `"clockSkewMs":3600000`) {
		t.Error(workers())
	}
	off.Store(0)
	p.wait("service", func() bool { status, _ := p.get("/t/a"); return status == 200 })
	if text := workers(); strings.Contains(text, "clockSkewMs") {
		t.Errorf("still named: %s", text)
	}
	if n := strings.Count(p.log(), "its clock and this node's differ"); n != 1 {
		t.Errorf("%d lines", n)
	}
}
