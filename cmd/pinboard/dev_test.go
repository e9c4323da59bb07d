package main

import (
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"pinboard/internal/rawtest"
)

// The one-command start: nothing is configured, a token is printed, ids are
// placed at once and spread, and Ctrl-C ends it with a stream still open.
func TestDev(t *testing.T) {
	t.Parallel()
	p := launch(t, "dev", "PORT=0").ready()
	if !strings.HasPrefix(p.url, "http://127.0.0.1:") {
		t.Errorf("listens on %s: anybody could reach it", p.url)
	}
	stream := func(c *rawtest.Conn) {
		if _, ok := c.Request(); !ok {
			return
		}
		c.Write("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n:1\n\r\n")
		c.AwaitEnd(patience)
	}
	a, b := rawtest.NewWorker(t, stream), rawtest.NewWorker(t, stream)
	token := banner(p, `token +(\S+) `)
	for _, w := range []*rawtest.Worker{a, b} {
		w.Register(p.url, token, 200*time.Millisecond, "/t")
	}
	var open []*rawtest.Client
	for _, id := range strings.Split("abcdefghijklmnopqrstuvwxyz", "") { // one address, as at a developer's machine
		c := rawtest.Dial(t, p.url)
		c.Write("GET /t/" + id + " HTTP/1.1\r\nHost: h\r\n\r\n")
		if m := c.Head(); m.Status() != 200 {
			t.Fatalf("/t/%s: %s", id, m.Raw)
		}
		open = append(open, c)
	}
	if a.Deliveries() == 0 || b.Deliveries() == 0 {
		t.Errorf("%d ids on one worker, %d on the other", a.Deliveries(), b.Deliveries())
	}
	if strings.Contains(p.log(), token) {
		t.Error("the token is in the log")
	}
	if address := banner(p, `address +(\S+)`); address != p.url {
		t.Errorf("the address is %s, %s is printed", p.url, address)
	}
	for _, tip := range []string{"Not for production", "PinnedWorker(", "/registry/workers", "Ctrl-C"} {
		if !strings.Contains(p.stderr.String(), tip) {
			t.Errorf("no %s in\n%s", tip, p.stderr.String())
		}
	}
	p.signal(syscall.SIGINT)
	if code := p.exit(); code != 0 {
		t.Errorf("exit %d", code)
	}
	if l := p.line("draining"); l["noticeMs"] != 0.0 || l["budgetMs"] != 0.0 {
		t.Errorf("Ctrl-C waits: %v", l)
	}
	if l := p.line("stopped"); l["cutStreams"] != float64(len(open)) {
		t.Errorf("at the end: %v", l)
	}
}

// banner waits for the line of the greeting and returns the group of re.
func banner(p *process, re string) (found string) {
	p.t.Helper()
	p.wait("the greeting", func() bool {
		if m := regexp.MustCompile(re).FindStringSubmatch(p.stderr.String()); m != nil {
			found = m[1]
		}
		return found != ""
	})
	return found
}

// A token that is given is used and not shown; a REDIS_URL that lies around
// changes nothing, and that is said.
func TestDevKeepsToItself(t *testing.T) {
	t.Parallel()
	p := launch(t, "dev", "PORT=0", "PINBOARD_TOKEN="+secret, "REDIS_URL=redis://:"+secret+"@127.0.0.1:1").ready()
	if status, body := p.getAs(secret, "/registry/workers"); status != 200 {
		t.Errorf("%d %s", status, body)
	}
	if text := p.stderr.String() + p.log(); strings.Contains(text, secret) {
		t.Errorf("the secret is shown:\n%s", text)
	}
	if !strings.Contains(p.stderr.String(), "REDIS_URL is set and not used") {
		t.Errorf("no word of REDIS_URL:\n%s", p.stderr.String())
	}
}

// The two ways to ask a node by its health.
func TestProbe(t *testing.T) {
	t.Parallel()
	p := serve(t, "PINBOARD_SHUTDOWN_NOTICE_MS=60000", "PINBOARD_SHUTDOWN_BUDGET_MS=60000").ready()
	port := p.url[strings.LastIndexByte(p.url, ':')+1:]
	probe := func(want int, said string, args ...string) {
		t.Helper()
		var out, errs strings.Builder
		code := run(t.Context(), append([]string{"probe"}, args...), []string{"PORT=" + port, "HTTP_PROXY=http://127.0.0.1:1"}, &out, &errs)
		text := out.String() + errs.String()
		if code != want || !regexp.MustCompile(`^`+said+`\n$`).MatchString(text) {
			t.Errorf("probe %v: exit %d, %q; want %d, %q", args, code, text, want, said)
		}
	}
	probe(0, `ready, 0 workers`)
	probe(0, `ready, 0 workers`, "--url", p.url)
	probe(0, `ok`, "--url", p.url+"/healthz")
	probe(1, `pinboard: not ready: no health \(404\)`, "--url", p.url+"/t")
	p.signal(syscall.SIGTERM)
	p.line("draining")
	probe(1, `pinboard: not ready: draining \(503\)`)
	probe(0, `ok`, "--url", p.url+"/healthz")
	p.cmd.Process.Kill()
	<-p.exited
	probe(1, `pinboard: no answer: .*refused`)
	probe(2, `pinboard: --url: want http://host:port or https://host:port`, "--url", "http://u:"+secret+"@h")
}
