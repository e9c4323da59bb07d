package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"pinboard/internal/rawtest"
	"pinboard/internal/redisstore"
)

func TestServesAndStops(t *testing.T) {
	t.Parallel()
	p := serve(t, "PINBOARD_SHUTDOWN_NOTICE_MS=500").ready()
	if status, body := p.get("/healthz"); status != 200 || body != `{"status":"ok"}`+"\n" {
		t.Errorf("/healthz: %d %s", status, body)
	}
	if status, body := p.get("/readyz"); status != 200 || !strings.HasPrefix(body, `{"status":"ready","uptimeSeconds":`) {
		t.Errorf("/readyz: %d %s", status, body)
	}
	p.signal(syscall.SIGTERM)
	p.line("draining")
	if status, body := p.get("/readyz"); status != 503 || !strings.Contains(body, "draining") {
		t.Errorf("/readyz in the notice: %d %s", status, body)
	}
	if status, _ := p.get("/healthz"); status != 200 {
		t.Errorf("/healthz in the notice: %d", status)
	}
	if code := p.exit(); code != 0 {
		t.Errorf("exit %d", code)
	}
	p.line("stopped")
	for _, l := range p.lines {
		if l["time"] == nil || l["level"] == nil {
			t.Errorf("not a log line: %v", l)
		}
	}
	if strings.Contains(p.log(), secret) {
		t.Error("the token is in the log")
	}
	if p.stderr.String() != "" {
		t.Errorf("stderr: %s", p.stderr.String())
	}
}

// What runs is visible where an operator looks.
func TestVersionAndStoreFormatAreVisible(t *testing.T) {
	t.Parallel()
	p := serve(t).ready()
	first, _, _ := strings.Cut(p.log(), "\n")
	format := strconv.Itoa(redisstore.Format)
	for where, want := range map[string]string{
		first:                    `"msg":"pinboard","version":"` + version() + `","storeFormat":` + format + `}`,
		second(p.get("/readyz")): `"version":"` + version() + `","storeFormat":` + format + `}`,
		second(p.getAs(secret, "/registry/health")): `"version":"` + version() + `","storeFormat":` + format + `}`,
		second(p.get("/metrics")):                   `pinboard_build_info{store_format="` + format + `",version="` + version() + `"} 1` + "\n",
	} {
		if !strings.Contains(where, want) {
			t.Errorf("no %s in\n%.400s", want, where)
		}
	}
}

func second(_ int, body string) string { return body }

func TestInterruptIsADrainToo(t *testing.T) {
	t.Parallel()
	p := serve(t).ready()
	p.signal(syscall.SIGINT)
	if code := p.exit(); code != 0 {
		t.Errorf("exit %d", code)
	}
}

func TestSecondSignalExitsNow(t *testing.T) {
	t.Parallel()
	p := serve(t, "PINBOARD_SHUTDOWN_NOTICE_MS=60000", "PINBOARD_SHUTDOWN_BUDGET_MS=60000").ready()
	p.signal(syscall.SIGTERM)
	p.line("draining")
	time.Sleep(200 * time.Millisecond) // sooner it would be the same signal's echo
	p.signal(syscall.SIGTERM)
	if code := p.exit(); code != 1 {
		t.Errorf("exit %d", code)
	}
}

func TestFatal(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	_, port, _ := net.SplitHostPort(taken.Addr().String())
	p := serve(t, "PORT="+port)
	if code := p.exit(); code != 1 {
		t.Errorf("exit %d", code)
	}
	if text := fmt.Sprint(p.line("fatal")["error"]); !strings.Contains(text, "cannot listen") {
		t.Errorf("fatal: %s", text)
	}
}

func TestWarnings(t *testing.T) {
	t.Parallel()
	p := serve(t, "PINBOARD_LEASE_TTL_MS=1000", "PINBOARD_DURABILITY_POSTGRES_URL=postgres://u:"+secret+"@h/d").ready()
	log := p.log()
	for _, want := range []string{`"level":"WARN","msg":"REDIS_URL=memory:`, `"level":"ERROR","msg":"PINBOARD_COLD_START=off`, `"level":"WARN","msg":"PINBOARD_LEASE_TTL_MS`, `"level":"WARN","msg":"PINBOARD_DURABILITY_POSTGRES_URL`} {
		if !strings.Contains(log, want) {
			t.Errorf("the log does not say %s", want)
		}
	}
	p = serve(t, "LOG_FORMAT=text", "LOG_LEVEL=error")
	p.signal(syscall.SIGTERM)
	p.exit()
	if log := p.log(); log != "" {
		t.Errorf("LOG_LEVEL=error logs %s", log)
	}
}

// A log collector that dies does not take the node with it.
func TestLogsAreNoLifeline(t *testing.T) {
	t.Parallel()
	collector, stdout, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	port := freePort(t)
	cmd := exec.Command("pinboard", "serve")
	cmd.Env = []string{"PORT=" + port, "PINBOARD_HOST=127.0.0.1", "REDIS_URL=memory:", "PINBOARD_TOKEN=" + secret, "LOG_LEVEL=debug", "PINBOARD_SHUTDOWN_NOTICE_MS=0"}
	cmd.Stdout = stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	stdout.Close()
	collector.Close()
	answers := 0
	for end := time.Now().Add(patience); answers < 5 && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if status, _ := (&process{url: "http://127.0.0.1:" + port}).get("/readyz"); status == 200 {
			answers++
		}
	}
	if answers < 5 {
		t.Fatal("the node does not answer without its log")
	}
	cmd.Process.Signal(syscall.SIGTERM)
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

func TestHangupReloadsThePassport(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "passport.json")
	write := func(token string) {
		doc := `{"providers":[{"type":"staticToken","id":"p","keys":[{"name":"k","token":"` + token + `","scopes":["pinboard:operator"]}]}]}`
		if err := os.WriteFile(file, []byte(doc), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("first-token-of-all")
	p := serve(t, "PINBOARD_TOKEN=", "PINBOARD_PASSPORT=@"+file).ready()
	may := func(token string) bool {
		status, _ := p.getAs(token, "/registry/workers")
		return status == 200
	}
	if !may("first-token-of-all") || may("second-token-of-all") {
		t.Fatal("the passport is not in force")
	}
	write("second-token-of-all")
	p.signal(syscall.SIGHUP)
	p.line("passport reloaded")
	if may("first-token-of-all") || !may("second-token-of-all") {
		t.Error("the new passport is not in force")
	}
	os.WriteFile(file, []byte("{"), 0o600)
	p.signal(syscall.SIGHUP)
	p.line("passport not reloaded, the old one stays in force")
	if !may("second-token-of-all") {
		t.Error("a bad file took the passport out of force")
	}
}

// FC-55: who calls is judged before anything of the call is.
func TestBearer(t *testing.T) {
	t.Parallel()
	p := serve(t).ready()
	good := "Authorization: Bearer " + secret + "\r\n"
	for name, fields := range map[string]string{
		"none": "", "empty": "Authorization: Bearer\r\n", "blank": "Authorization: Bearer  \r\n",
		"basic": "Authorization: Basic " + secret + "\r\n", "longer": "Authorization: Bearer " + secret + "x\r\n",
		"prefix": "Authorization: Bearer " + secret[:5] + "\r\n", "twice": good + good,
	} {
		for _, path := range []string{"/registry", "/registry/", "/registry/workers", "/registry/none", "/registry/register?token=" + secret} {
			for _, method := range []string{"GET", "HEAD", "POST", "OPTIONS", "DELETE"} {
				// The announced body never comes: nobody may wait for it.
				m := rawtest.Do(t, p.url, method+" "+path+" HTTP/1.1\r\nHost: h\r\nContent-Length: 99\r\nConnection: close\r\n"+fields+"\r\n")
				if m.Status() != 401 || m.Get("WWW-Authenticate") == "" {
					t.Errorf("%s: %s %s: %s", name, method, path, m.Raw)
				}
			}
		}
	}
	for _, scheme := range []string{"Bearer", "bearer", "BEARER"} {
		m := rawtest.Do(t, p.url, "GET /registry/workers HTTP/1.1\r\nHost: h\r\nAuthorization: "+scheme+" "+secret+"\r\n\r\n")
		if m.Status() != 200 {
			t.Errorf("%s: %s", scheme, m.Raw)
		}
	}
}

// register makes w a worker of the node and waits until it gets ids.
func (p *process) register(w *rawtest.Worker, namespaces ...string) *rawtest.Session {
	p.t.Helper()
	s := w.Register(p.url, secret, 200*time.Millisecond, namespaces...)
	p.wait("a warm store", func() bool {
		status, _ := p.get(namespaces[0] + "/warm-up")
		return status == 200
	})
	return s
}

// FC-59: what anybody can read tells counts only.
func TestOpenEndpointsTellNothing(t *testing.T) {
	t.Parallel()
	p := serve(t, "LOG_LEVEL=debug").ready()
	w := rawtest.NewWorker(t, rawtest.Always(rawtest.Response(200, "ok", "Connection: close")))
	s := w.Register(p.url, secret, time.Minute, "/t") // no beat notices the refusal
	if status, body := p.get("/t/warm-up"); status != 200 {
		t.Fatalf("%d %s", status, body)
	}
	w.Refuse()
	answers := map[string]string{}
	for _, path := range []string{"/metrics", "/healthz", "/readyz", "/t/warm-up/x", "/t/fresh", "/t/%61", "/nowhere/a", "/registry/workers", "/registry/none"} {
		status, body := p.get(path)
		answers[fmt.Sprint(path, " ", status)] = body
	}
	_, port, _ := net.SplitHostPort(w.Addr())
	forbidden := regexp.MustCompile(`127\.0\.0\.1|` + port + `|warm-up|` + s.ID + `|` + s.Secret + `|` + s.ClientID + `|` + secret + `|memory:|dial|tcp|goroutine \d|\.go:\d|go1\.`)
	for what, body := range answers {
		if leak := forbidden.FindString(body); leak != "" {
			t.Errorf("%s tells %q:\n%.300s", what, leak, body)
		}
	}
	for _, wanted := range []string{"/t/warm-up/x 502", "/t/fresh 502", "/nowhere/a 404", "/registry/workers 401"} {
		if _, ok := answers[wanted]; !ok {
			t.Errorf("the trial does not see %s", wanted)
		}
	}
	for _, hidden := range []string{secret, s.Secret} {
		if strings.Contains(p.log(), hidden) {
			t.Errorf("a secret is in the log")
		}
	}
}

// One name leads from a client's error to the node's log.
func TestARequestIDLeadsToTheLog(t *testing.T) {
	t.Parallel()
	p := serve(t, "LOG_LEVEL=debug").ready()
	w := rawtest.NewWorker(t, rawtest.Always("nonsense\r\n\r\n"))
	w.Register(p.url, secret, 200*time.Millisecond, "/t")
	ask := func(fields string) string {
		m := rawtest.Do(t, p.url, "GET /t/a HTTP/1.1\r\nHost: h\r\n"+fields+"\r\n")
		if m.Status() != 502 {
			t.Fatalf("%s", m.Raw)
		}
		return m.Get("X-Request-Id")
	}
	mine, made := ask("X-Request-Id: mine-1\r\n"), ask("")
	if mine != "mine-1" || made == "" {
		t.Errorf("errors are named %q and %q", mine, made)
	}
	for _, id := range []string{mine, made} {
		p.wait("the request in the log", func() bool {
			return strings.Contains(p.log(), `"level":"DEBUG","msg":"request","requestId":"`+id+`"`)
		})
	}
	if l := p.line("worker sent an invalid answer"); l["url"] != "http://"+w.Addr() || l["why"] != "no valid HTTP response head" || l["requestId"] != mine && l["requestId"] != made {
		t.Errorf("%v", l)
	}
}

// FC-64: whatever clients invent, the exposition stays as it is.
func TestMetricsStayFlat(t *testing.T) {
	t.Parallel()
	p := serve(t).ready()
	w := rawtest.NewWorker(t, rawtest.Always(rawtest.Response(200, "ok")))
	p.register(w, "/t")
	before := p.series()
	c := rawtest.Dial(t, p.url)
	for i := range 2000 {
		request := fmt.Sprintf("GET /t/i%d HTTP/1.1\r\nHost: h%d\r\n\r\n", i, i)
		if i%2 == 1 {
			request = fmt.Sprintf("A%d /n%d/x HTTP/1.1\r\nHost: h\r\nUpgrade: u%d\r\nConnection: upgrade\r\n\r\n", i, i, i)
		}
		c.Write(request)
		if m := c.Final("GET"); m.Status() == 0 {
			t.Fatalf("no answer to %q", request)
		}
	}
	if after := p.series(); after != before {
		t.Errorf("%d series became %d", before, after)
	}
	_, text := p.get("/metrics")
	for _, line := range []string{
		`pinboard_requests_total{class="2xx",route="/{namespace}/{id}"} 100[1-9]`,
		`pinboard_requests_total{class="4xx",route="/{namespace}/{id}"} 1000`,
		`pinboard_resolutions_total{outcome="placed"} 100[1-9]`,
		`pinboard_forwards_total{result="served"} 100[1-9]`,
		`pinboard_refusals_total{code="unknown_namespace"} 1000`,
	} {
		if !regexp.MustCompile(`(?m)^` + strings.NewReplacer("{", `\{`, "}", `\}`, "[1-9]", "[1-9]").Replace(line) + `$`).MatchString(text) {
			t.Errorf("no line %s in\n%s", line, regexp.MustCompile(`(?m)^pinboard_(requests|resolutions|forwards|refusals)_total.* [1-9].*$`).FindAllString(text, -1))
		}
	}
	p.wait("the worker and its ids in the metrics", func() bool {
		_, text := p.get("/metrics")
		return strings.Contains(text, "\npinboard_workers{state=\"live\"} 1\n") && strings.Contains(text, "\npinboard_placements 1001\n")
	})
}

func (p *process) series() int {
	_, text := p.get("/metrics")
	n := 0
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "pinboard_") {
			n++
		}
	}
	if n == 0 {
		p.t.Fatal("no metrics")
	}
	return n
}

// FC-61, FC-62: a drain finishes what is finite and ends streams at a stated
// point; both are counted.
func TestDrainWithOpenExchanges(t *testing.T) {
	t.Parallel()
	p := serve(t, "PINBOARD_SHUTDOWN_NOTICE_MS=300", "PINBOARD_SHUTDOWN_BUDGET_MS=2500").ready()
	answer := make(chan struct{})
	w := rawtest.NewWorker(t, func(c *rawtest.Conn) {
		for {
			m, ok := c.Request()
			if !ok {
				return
			}
			switch {
			case strings.HasSuffix(m.Target(), "/slow"):
				<-answer
				c.Write(rawtest.Response(200, "late"))
			case strings.HasSuffix(m.Target(), "/sse"):
				c.Write("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n:1\n\r\n")
				c.AwaitEnd(patience)
				return
			case strings.HasSuffix(m.Target(), "/ws"):
				c.Write("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: x\r\n\r\n")
				c.AwaitEnd(patience)
				return
			default:
				c.Write(rawtest.Response(200, "ok"))
			}
		}
	})
	p.register(w, "/t")
	ask := func(path, fields string) *rawtest.Client {
		c := rawtest.Dial(t, p.url)
		c.Write("GET /t/a" + path + " HTTP/1.1\r\nHost: h\r\n" + fields + "\r\n")
		return c
	}
	sse := ask("/sse", "")
	if m := sse.Head(); m.Status() != 200 {
		t.Fatalf("SSE: %s", m.Raw)
	}
	ws := ask("/ws", "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: x\r\nSec-WebSocket-Version: 13\r\n")
	if m := ws.Head(); m.Status() != 101 {
		t.Fatalf("WebSocket: %s", m.Raw)
	}
	idle := ask("/now", "")
	if m := idle.Final("GET"); m.Status() != 200 {
		t.Fatalf("keep-alive: %s", m.Raw)
	}
	served := w.Deliveries()
	slow := ask("/slow", "")
	w.AwaitDeliveries(served + 1)

	begun := time.Now()
	p.signal(syscall.SIGTERM)
	p.line("draining")
	idle.Write("GET /t/a/now HTTP/1.1\r\nHost: h\r\n\r\n")
	if m := idle.Final("GET"); m.Status() != 200 || !strings.EqualFold(m.Get("Connection"), "close") {
		t.Errorf("in the notice: %s", m.Raw)
	}
	time.Sleep(600 * time.Millisecond)
	close(answer)
	if m := slow.Final("GET"); m.Status() != 200 || string(m.Body) != "late" {
		t.Errorf("the finite request was not finished: %s", m.Raw)
	}
	if rest, end := sse.Rest(patience); strings.Contains(string(rest), "0\r\n\r\n") || end == rawtest.Quiet {
		t.Errorf("SSE ended %v with %q: it was cut, that must show", end, rest)
	}
	if rest, end := ws.Rest(patience); len(rest) > 0 || end == rawtest.Quiet {
		t.Errorf("WebSocket ended %v with %q", end, rest)
	}
	if code := p.exit(); code != 0 {
		t.Errorf("exit %d", code)
	}
	if took := time.Since(begun); took < 2*time.Second || took > 4*time.Second {
		t.Errorf("ended after %v, the budget was 2.5 s", took)
	}
	if l := p.line("draining"); l["exchanges"] != 1.0 || l["streams"] != 1.0 || l["tunnels"] != 1.0 {
		t.Errorf("counted at the signal: %v", l)
	}
	if l := p.line("stopped"); l["cutExchanges"] != 0.0 || l["cutStreams"] != 1.0 || l["cutTunnels"] != 1.0 {
		t.Errorf("counted at the end: %v", l)
	}
}
