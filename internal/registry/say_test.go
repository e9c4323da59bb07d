package registry

import (
	"bytes"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"
)

// What workers and operators do is one line each, with the name of their token
// and nothing secret.
func TestJoinsLeavesDrainsAndOrdersAreOneLineEach(t *testing.T) {
	var log bytes.Buffer
	h := open(t, func(c *Config) { c.Log = slog.New(slog.NewJSONHandler(&log, nil)) })
	w := h.process("c1")
	told := func(lines ...string) {
		t.Helper()
		text := log.String()
		if n := strings.Count(text, "\n"); n != len(lines) {
			t.Errorf("%d lines, want %d:\n%s", n, len(lines), text)
		}
		for _, line := range lines {
			if !strings.Contains(text, line) {
				t.Errorf("no line %s in\n%s", line, text)
			}
		}
		if strings.Contains(text, w.secret) || strings.Contains(text, w.token) {
			t.Errorf("a secret is in the log:\n%s", text)
		}
		log.Reset()
	}
	ops := func(path, body string) { h.post(path, "ops", body).is(t, 200) }
	const worker, operator = `"token":"p/b"`, `"token":"p/ops"`

	w.register().is(t, 200)
	told(`"msg":"worker registered",` + worker + `,"session":"` + w.session + `","client":"c1","url":"` + w.url + `","namespaces":["/t"],"proven":true`)
	h.place("/t/a")
	w.beat("").is(t, 200)
	told()
	w.beat(`,"draining":true`).is(t, 200)
	w.beat(`,"draining":true`).is(t, 200)
	told(`"msg":"worker drains by itself",` + worker + `,"session":"` + w.session + `"`)
	w.beat("").is(t, 200)
	w.beat(`,"draining":true`).is(t, 200)
	told(`worker drains by itself`)

	ops("/registry/wind_down", `{"namespace":"/t","id":"a","deadline":9}`)
	told(`"msg":"order taken",` + operator + `,"order":"wind_down","done":true,"hostname":"","namespace":"/t","id":"a"`)
	ops("/registry/wind_down", `{"namespace":"/t","id":"a","deadline":null}`)
	told(`"order":"revoke","done":true`)
	ops("/registry/wind_down", `{"namespace":"/t","id":"none","deadline":9}`)
	told(`"order":"wind_down","done":false`)
	ops("/registry/drain", `{"clientId":"c1"}`)
	told(operator + `,"order":"drain","done":true,"session":"` + w.session + `","client":"c1"`)
	ops("/registry/undrain", `{"clientId":"c1"}`)
	told(`"order":"resume","done":true`)
	ops("/registry/push", `{"clientId":"c1","type":"evict","id":"a"}`)
	told(`"order":"evict","done":true`)
	ops("/registry/binding/delete", `{"hostname":"h","namespace":"/t"}`)
	told(`"order":"delete_binding","done":false,"hostname":"h"`)

	// A stranger's word changes nothing and is no news.
	leave := fmt.Sprintf(`{"sessionId":%q}`, w.session)
	h.post("/registry/deregister", "worker-a", leave).is(t, 200)
	told()
	h.post("/registry/deregister", w.token, leave).is(t, 200)
	told(`"msg":"worker left",` + worker + `,"session":"` + w.session + `","client":"c1","url":"` + w.url + `"`)
	h.post("/registry/deregister", w.token, leave).is(t, 200)
	told()

	w.register().is(t, 200)
	log.Reset()
	ops("/registry/eject", `{"clientId":"c1"}`)
	told(`"order":"eject","done":true`)
}

// Sessions that end without a word do not pile up.
func TestDrainsAreBounded(t *testing.T) {
	var d drains
	for i := range 3 * maxDrains {
		if !d.turned(fmt.Sprint(i), true) || d.turned(fmt.Sprint(i), true) {
			t.Fatalf("session %d", i)
		}
	}
	if len(d.sessions) > maxDrains {
		t.Errorf("%d sessions are remembered", len(d.sessions))
	}
}

// A worker whose challenge nobody answers is a line with its URL and the error,
// at once and then at growing intervals, and one line when it is over.
func TestUnansweredChallengesAreToldSeldom(t *testing.T) {
	var log bytes.Buffer
	h := open(t, func(c *Config) { c.Log = slog.New(slog.NewJSONHandler(&log, nil)) })
	w, other := h.process("c1"), h.process("c2")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	good := w.url
	w.url = "http://" + l.Addr().String()
	l.Close()
	warned := func(n int, about ...string) {
		t.Helper()
		text := log.String()
		if got := strings.Count(text, "advertise URL not proved"); got != n {
			t.Errorf("%d warnings, want %d:\n%s", got, n, text)
		}
		for _, a := range about {
			if !strings.Contains(text, a) {
				t.Errorf("no %s in\n%s", a, text)
			}
		}
		if strings.Contains(text, "challenge1") || strings.Contains(text, "?challenge=") || strings.Contains(text, w.secret) {
			t.Errorf("the challenge or a secret is in the log:\n%s", text)
		}
		log.Reset()
	}
	if a := w.register(); a.status != 503 || strings.Contains(a.text, "refused") {
		t.Errorf("the worker is told %d %s", a.status, a.text)
	}
	warned(1, `"level":"WARN"`, `"client":"c1","url":"`+w.url+`","reason":"not answered","error":"dial tcp `, "refused", `"others":0`)
	for range 32 {
		h.now = h.now.Add(time.Second)
		w.register()
	}
	warned(2, `"others":9`, `"others":19`)
	other.answer = 500
	other.register()
	warned(1, `"client":"c2"`, `"reason":"answered 500"`)
	w.url = good
	w.register().is(t, 200)
	warned(0, `"msg":"advertise URL proved after all","client":"c1","url":"`+good+`"`, "worker registered")
	w.answer = 404
	w.beat("").is(t, 200)
	warned(1, `"client":"c1","url":"`+good+`"`)
}
