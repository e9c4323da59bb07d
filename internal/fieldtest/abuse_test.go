package fieldtest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pinboard/internal/rawtest"
)

// FC-34: heads of 60 kB pass both ways; beyond 64 KiB each side gets its
// status and the connection closes.
func TestFC34HeadsAreBounded(t *testing.T) {
	t.Parallel()
	n := start(t)
	padding := make(chan int, 1)
	w := n.worker(func(c *rawtest.Conn) {
		for {
			m, ok := c.Request()
			if !ok {
				return
			}
			if strings.HasSuffix(m.Target(), "/padded") {
				c.Write(rawtest.Response(200, "padded", "X-Pad: "+strings.Repeat("p", <-padding)))
				continue
			}
			c.Write(rawtest.Response(200, "ok"))
		}
	})
	for _, size := range []int{8 << 10, 16 << 10, 32 << 10, 60 << 10} {
		n.passes(w, ask("GET", "/t/a", "Cookie: "+strings.Repeat("c", size)))
		n.passes(w, get("/t/a/"+strings.Repeat("x", size)))
		padding <- size
		if m := n.do(get("/t/a/padded")); m.Status() != 200 || len(m.Get("X-Pad")) != size {
			t.Errorf("%d bytes of the worker's: %.200q", size, m.Raw)
		}
	}
	tiny := make([]string, 9000)
	for i := range tiny {
		tiny[i] = "a: b"
	}
	n.passes(w, ask("GET", "/t/a", tiny...))
	tooMany := ask("GET", "/t/a", append(tiny, tiny...)...)
	for _, size := range []int{64 << 10, 1 << 20, 2 << 20} {
		tooLarge(n, w, ask("GET", "/t/a", "Cookie: "+strings.Repeat("c", size)), 431, "head_too_large")
		tooLarge(n, w, get("/t/a/"+strings.Repeat("x", size)), 414, "target_too_long")
	}
	tooLarge(n, w, tooMany, 431, "head_too_large")
	for _, size := range []int{64 << 10, 1 << 20, 12 << 20} {
		padding <- size
		if m := n.do(get("/t/a/padded")); !ours(m, 502, "worker_invalid") {
			t.Errorf("%d bytes of the worker's: %.200q", size, m.Raw)
		}
	}

	resolved := n.metric("pinboard_resolutions_total")
	n.passes(w, get("/t/"+strings.Repeat("i", 256)))
	if now := n.metric("pinboard_resolutions_total"); now != resolved+1 {
		t.Fatalf("%v resolutions became %v: the trial shows nothing", resolved, now)
	}
	n.stops(w, get("/t/"+strings.Repeat("i", 257)), 400, "invalid_id")
	if now := n.metric("pinboard_resolutions_total"); now != resolved+1 {
		t.Error("an id that is too long was looked up")
	}
}

// tooLarge writes a head that is refused before it is whole: the answer must
// arrive although the client is still sending, and the connection end.
func tooLarge(n *node, w *worker, request string, status int, code string) {
	n.t.Helper()
	c := n.dial()
	defer c.Close()
	before := len(w.got())
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.Write(request)
	}()
	m := c.Response("GET")
	if !ours(m, status, code) || m.Get("Connection") != "close" {
		n.t.Errorf("%d bytes: %.300q, %v", len(request), m.Raw, m.End)
	}
	<-done
	c.HalfClose()
	if _, end := c.Rest(patience); end == rawtest.Quiet {
		n.t.Error("the connection stays open")
	}
	if len(w.got()) != before {
		n.t.Error("the worker heard of it")
	}
}

// FC-34: only the registry limits bodies, and says so while they are coming.
func TestFC34LargeBodiesOnlyMatterToTheRegistry(t *testing.T) {
	t.Parallel()
	n := start(t)
	size := make(chan int, 1)
	n.worker(func(c *rawtest.Conn) {
		m, ok := c.Head()
		if !ok {
			return
		}
		total := 0
		if m.Method() == "POST" {
			for total < 64<<20 {
				b, end := c.Read(1 << 20)
				if total += len(b); end != rawtest.Alive {
					break
				}
			}
			size <- total
		}
		c.Write(rawtest.Response(200, "ok"))
	})
	c := n.dial()
	c.Write(ask("POST", "/t/a", fmt.Sprint("Content-Length: ", 64<<20)))
	block := strings.Repeat("b", 1<<20)
	for range 64 {
		if !c.Write(block) {
			t.Fatal("the upload was cut")
		}
	}
	if m := c.Response("POST"); m.Status() != 200 || <-size != 64<<20 {
		t.Errorf("%q", m.Raw)
	}
	for _, trial := range []struct {
		fields []string
		status int
	}{
		{[]string{"Authorization: Bearer " + token, fmt.Sprint("Content-Length: ", 17<<20)}, 413},
		{[]string{"Authorization: Bearer " + token, "Transfer-Encoding: chunked"}, 413},
		{[]string{fmt.Sprint("Content-Length: ", 17<<20)}, 401},
	} {
		c := n.dial()
		c.Write(ask("POST", "/registry/register", trial.fields...))
		sent := make(chan struct{})
		go func() {
			defer close(sent)
			for range 17 {
				b := block
				if strings.HasPrefix(trial.fields[len(trial.fields)-1], "Transfer") {
					b = chunk(block)
				}
				if !c.Write(b) {
					return
				}
			}
		}()
		if m := c.Response("POST"); m.Status() != trial.status {
			t.Errorf("%q: %.300q, %v", trial.fields, m.Raw, m.End)
		}
		<-sent
		c.Close()
	}
}

// FC-60: anybody can name an id, with any method. Answers do not tell whether
// an id was there, and inventing ids costs the node a bounded memory.
func TestFC60InventedIds(t *testing.T) {
	t.Parallel()
	n := start(t, "PINBOARD_RESTATE_AFTER=1000000")
	w := n.worker(rawtest.Always("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"))
	shape := func(m rawtest.Message) string {
		var names []string
		for _, f := range m.Fields {
			names = append(names, f.Name)
		}
		return m.Start + " " + strings.Join(names, ",")
	}
	for _, method := range []string{"GET", "HEAD", "OPTIONS", "POST"} {
		fresh := n.do(ask(method, "/t/fresh-"+method, "Content-Length: 0"))
		placed := n.do(ask(method, "/t/fresh-"+method, "Content-Length: 0"))
		if shape(fresh) != shape(placed) {
			t.Errorf("%s: an id that is new: %s; one that is placed: %s", method, shape(fresh), shape(placed))
		}
		a := n.do(ask(method, "/nowhere/a", "Connection: close"))
		b := n.do(ask(method, "/nowhere-either/b", "Connection: close"))
		if shape(a) != shape(b) || a.Status() != 404 {
			t.Errorf("%s: unknown namespaces: %s and %s", method, shape(a), shape(b))
		}
	}
	flood := func(tag string, ids int) {
		c := n.dial()
		for i := 0; i < ids; i += 50 {
			var batch strings.Builder
			for j := range 50 {
				method := []string{"GET", "HEAD", "OPTIONS"}[j%3]
				batch.WriteString(ask(method, fmt.Sprintf("/t/%s-%d", tag, i+j)))
			}
			c.Write(batch.String())
			for range 50 {
				if m := c.Response("HEAD"); m.Status() != 404 {
					t.Fatalf("%q", m.Raw)
				}
			}
		}
		c.Close()
	}
	flood("first", 1000)
	series, heap := n.series(), n.metric("go_memstats_heap_inuse_bytes")
	const ids = 10000
	flood("second", ids)
	if now := n.series(); now != series {
		t.Errorf("%d series became %d", series, now)
	}
	// On memory: the rows themselves are in this process; what is bounded is
	// what one costs.
	if grown := n.metric("go_memstats_heap_inuse_bytes") - heap; grown > ids*4096 {
		t.Errorf("%d ids took %.0f bytes each", ids, grown/ids)
	}
	_ = w
}

// FC-64: nothing a client, worker or path contains adds a series.
func TestFC64SeriesAreBounded(t *testing.T) {
	t.Parallel()
	n := start(t)
	n.worker(rawtest.Always(rawtest.Response(200, "ok")))
	before := n.series()
	c := n.dial()
	say := func(request string) {
		if !c.Write(request) {
			c = n.dial()
			c.Write(request)
		}
		if m := c.Final(strings.Fields(request)[0]); m.Status() == 0 || m.Get("Connection") == "close" {
			c.Close()
			c = n.dial()
		}
	}
	for i := range 300 {
		say(get(fmt.Sprint("/t/id", i)))
		say(get(fmt.Sprintf("/ns%d/x", i)))
		say(ask(fmt.Sprint("A", i), "/t/a"))
		say(strings.Replace(get("/t/a"), "Host: h", fmt.Sprint("Host: h", i), 1))
		say(ask("GET", "/t/a", fmt.Sprint("Upgrade: u", i), "Connection: upgrade"))
		say(get(fmt.Sprintf("/t/%%%d", i)))
		say(fmt.Sprintf("GET /t/a HTTP/%d.7\r\nHost: h\r\n\r\n", i))
		say(get(fmt.Sprintf("/registry/x%d", i)))
		say(get(fmt.Sprintf("/healthz/%d", i)))
	}
	for i := range 100 {
		status, answer := n.post("/registry/register", map[string]any{
			"clientId": fmt.Sprintf("%032x", i+5000), "secret": fmt.Sprintf("%064x", i+5000), "namespaces": []string{fmt.Sprint("/gone", i)},
			"advertiseUrl": fmt.Sprint("http://127.0.0.1:", 20000+i), "headroom": 1, "draining": false,
		})
		if status != 200 {
			t.Fatalf("register: %d %v", status, answer)
		}
		n.post("/registry/deregister", map[string]any{"sessionId": answer["sessionId"]})
	}
	begun := time.Now()
	if after := n.series(); after != before {
		t.Errorf("%d series became %d", before, after)
	}
	if took := time.Since(begun); took > slack {
		t.Errorf("a scrape takes %v", took)
	}
}

// series counts Pinboard's own.
func (n *node) series() int {
	n.t.Helper()
	count := 0
	for l := range strings.Lines(n.metrics()) {
		if strings.HasPrefix(l, "pinboard_") {
			count++
		}
	}
	if count == 0 {
		n.t.Fatal("no metrics")
	}
	return count
}
