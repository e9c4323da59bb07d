package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"pinboard/internal/attest"
	"pinboard/internal/directory"
	"pinboard/internal/metrics"
	"pinboard/internal/ownership"
	"pinboard/internal/proxy"
)

const (
	session = "abcdefghijklmnop"
	runID   = "0123456789abcdef0123456789abcdef01234567"
	epoch   = 1 << 40
)

// A worker that keeps what it was asked and answers what the test says.
type scripted struct {
	net.Listener
	mu     sync.Mutex
	answer string
	asked  string
	hangUp bool
}

func (s *scripted) serve() {
	for {
		nc, err := s.Accept()
		if err != nil {
			return
		}
		go func() {
			defer nc.Close()
			in := bufio.NewReader(nc)
			for {
				var head strings.Builder
				for !strings.HasSuffix(head.String(), "\r\n\r\n") {
					line, err := in.ReadString('\n')
					if err != nil {
						return
					}
					head.WriteString(line)
				}
				s.mu.Lock()
				s.asked += head.String()
				answer, hangUp := s.answer, s.hangUp
				s.mu.Unlock()
				io.WriteString(nc, answer)
				if hangUp {
					return
				}
			}
		}()
	}
}

func (s *scripted) script(answer string, hangUp bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer, s.hangUp, s.asked = answer, hangUp, ""
}

func (s *scripted) heard() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

// fakeRedis answers as a store in which every id but those named "gone" is
// placed on w.
func fakeRedis(t *testing.T, w *ownership.Worker) string {
	l := listen(t)
	record, _ := json.Marshal(w)
	gen := runID + "@1"
	row := binary.BigEndian.AppendUint64([]byte{byte(ownership.Placed)}, epoch)
	row = appendSession(row, session)
	lease := binary.BigEndian.AppendUint64(nil, uint64(time.Now().Add(time.Hour).UnixMicro()))
	lease = append(append(append(lease, make([]byte, 8)...), 0, byte(len(gen))), gen...)
	bulk := func(s string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(s), s) }
	reply := func(words []string) string {
		switch words[0] {
		case "INFO":
			return bulk("# Server\r\nrun_id:" + runID + "\r\n")
		case "HGETALL":
			return "*2\r\n" + bulk("token") + bulk(string(record))
		case "TIME":
			now := time.Now()
			return "*2\r\n" + bulk(fmt.Sprint(now.Unix())) + bulk(fmt.Sprint(now.Nanosecond()/1000))
		case "MGET":
			if strings.HasSuffix(words[1], "/gone") {
				return "*3\r\n$-1\r\n" + bulk(string(lease)) + bulk(gen)
			}
			return "*3\r\n" + bulk(string(row)) + bulk(string(lease)) + bulk(gen)
		}
		return "+OK\r\n"
	}
	go func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				in := bufio.NewReader(nc)
				for {
					var n int
					if _, err := fmt.Fscanf(in, "*%d\r\n", &n); err != nil {
						return
					}
					words := make([]string, n)
					for i := range words {
						var size int
						fmt.Fscanf(in, "$%d\r\n", &size)
						b := make([]byte, size+2)
						io.ReadFull(in, b)
						words[i] = string(b[:size])
					}
					io.WriteString(nc, reply(words))
				}
			}()
		}
	}()
	return l.Addr().String()
}

func listen(t *testing.T) net.Listener {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// startLoop starts one loop, which lives as long as the test binary.
func startLoop(t *testing.T, redis string) string {
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{redis}, ForceSingleClient: true, DisableCache: true, AlwaysRESP2: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	s := &settings{redis: redis, prefix: "pb", buckets: 16, look: true, workers: newRoster(client, "pb"),
		metrics: metrics.New(func() metrics.Snapshot { return metrics.Snapshot{} })}
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	go s.workers.follow(ctx)
	for s.workers.now.Load().newest == nil {
		time.Sleep(time.Millisecond)
	}
	free := listen(t)
	address := free.Addr().String()
	free.Close()
	l, err := newLoop(s, address)
	if err != nil {
		t.Fatal(err)
	}
	go l.run()
	return address
}

type everywhere struct{ w *ownership.Worker }

func (d everywhere) Resolve(_ context.Context, r directory.Request) (directory.Placement, error) {
	now := time.Now()
	return directory.Placement{Worker: d.w, Epoch: epoch, Sent: now, Deadline: now.Add(time.Hour)}, nil
}
func (everywhere) Report(context.Context, directory.Placement, directory.Event) directory.Verdict {
	return directory.Verdict{}
}
func (everywhere) Recheck(context.Context, []*directory.Watch) error { return nil }
func (everywhere) Caller(context.Context, proxy.CallerClaim) (session string, err error) {
	return "", nil
}

func startProxy(t *testing.T, w *ownership.Worker) string {
	p, err := proxy.New(proxy.Config{
		Directory: everywhere{w},
		Mint:      attest.NewMinter(time.Now, func(w *ownership.Worker) (string, string) { return w.Session, w.Secret }).Mint,
	})
	if err != nil {
		t.Fatal(err)
	}
	l := listen(t)
	go p.Serve(l)
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		p.Shutdown(ctx)
	})
	return l.Addr().String()
}

// converse sends b, then a FIN, and returns all that comes back.
func converse(t *testing.T, address string, pieces ...string) string {
	t.Helper()
	nc, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	nc.SetDeadline(time.Now().Add(10 * time.Second))
	for i, p := range pieces {
		if i > 0 {
			time.Sleep(20 * time.Millisecond)
		}
		io.WriteString(nc, p)
	}
	nc.(*net.TCPConn).CloseWrite()
	b, err := io.ReadAll(nc)
	if err != nil {
		return string(b) + "<cut>"
	}
	return string(b)
}

// token is what differs from second to second.
var token = regexp.MustCompile(`Attestation: [\w.-]+`)

const ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-A: b\r\n\r\nok"

// Both engines turn the same bytes into the same bytes, in both directions:
// otherwise a comparison of their cost means nothing.
func TestLoopDoesWhatTheProxyDoes(t *testing.T) {
	s := &scripted{Listener: listen(t)}
	go s.serve()
	w := &ownership.Worker{Session: session, Secret: "s3cret", URL: "http://" + s.Addr().String(), Namespaces: []string{"/threads"}}
	loop, proxied := startLoop(t, fakeRedis(t, w)), startProxy(t, w)
	get := "GET /threads/t_1/ok?x=1 HTTP/1.1\r\nHost: a\r\n"
	for name, c := range map[string]struct {
		request []string
		answer  string
		hangUp  bool
	}{
		"a plain request":      {[]string{get + "\r\n"}, ok, false},
		"hop-by-hop and spoof": {[]string{get + "Connection: x-gone\r\nX-Gone: 1\r\nx-forwarded-for: 6.6.6.6\r\nPinboard-Epoch: 9\r\nX_Forwarded_Host: b\r\nCookie: c\r\nTE: trailers\r\n\r\n"}, ok, false},
		"absolute form":        {[]string{"GET http://b/threads/t_1?q HTTP/1.1\r\nHost: a\r\n\r\n"}, ok, false},
		"no host, old version": {[]string{"GET /threads/t_1 HTTP/1.0\r\n\r\n"}, ok, false},
		"pipelined and split":  {[]string{get + "\r\n" + get + "\r\n" + get[:20], get[20:] + "\r\n"}, ok, false},
		"close asked for":      {[]string{get + "Connection: close\r\n\r\n"}, ok, false},
		"HEAD":                 {[]string{"HEAD" + get[3:] + "\r\n"}, "HTTP/1.1 200 OK\r\nContent-Length: 77\r\n\r\n", false},
		"204":                  {[]string{get + "\r\n"}, "HTTP/1.1 204 No Content\r\nKeep-Alive: x\r\n\r\n", false},
		"interim":              {[]string{get + "\r\n"}, "HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n" + ok, false},
		"chunks and trailers":  {[]string{get + "\r\n"}, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX-T: 1\r\nConnection: x\r\n\r\n", false},
		"until the close":      {[]string{get + "\r\n"}, "HTTP/1.1 200 OK\r\n\r\nabc", true},
		"worker closes":        {[]string{get + "\r\n"}, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\na", true},
		"a large body":         {[]string{get + "\r\n"}, "HTTP/1.1 200 OK\r\nContent-Length: 3000000\r\n\r\n" + strings.Repeat("x", 3000000), false},
	} {
		var asked, got [2]string
		for i, address := range []string{loop, proxied} {
			s.script(c.answer, c.hangUp)
			got[i] = converse(t, address, c.request...)
			asked[i] = token.ReplaceAllString(s.heard(), "Attestation: *")
		}
		if asked[0] != asked[1] || asked[0] == "" {
			t.Errorf("%s: the worker heard\n%s\nand of the proxy\n%s", name, asked[0], asked[1])
		}
		if got[0] != got[1] || got[0] == "" {
			t.Errorf("%s: the client got\n%.500s\nand of the proxy\n%.500s", name, got[0], got[1])
		}
	}
}

// What an engine must refuse or cut, it does.
func TestLoopRefuses(t *testing.T) {
	s := &scripted{Listener: listen(t)}
	go s.serve()
	w := &ownership.Worker{Session: session, URL: "http://" + s.Addr().String(), Namespaces: []string{"/threads"}}
	loop := startLoop(t, fakeRedis(t, w))
	get := "GET /threads/t_1 HTTP/1.1\r\nHost: a\r\n\r\n"
	for name, c := range map[string]struct {
		request, answer string
		hangUp          bool
		want            string
	}{
		"no row":           {"GET /threads/gone HTTP/1.1\r\nHost: a\r\n\r\n", ok, false, "HTTP/1.1 503 "},
		"a body":           {"POST /threads/t_1 HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx", ok, false, "HTTP/1.1 501 "},
		"no HTTP":          {"hello\r\n\r\n", ok, false, "HTTP/1.1 400 "},
		"no answer":        {get, "", true, "HTTP/1.1 502 "},
		"no HTTP answer":   {get, "hello\r\n\r\n", false, "HTTP/1.1 502 "},
		"half an answer":   {get, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", true, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf<cut>"},
		"a worker refuses": {get, "HTTP/1.1 503 No\r\nPinned-Refusal: lease-unhealthy\r\nContent-Length: 0\r\n\r\n", false, "HTTP/1.1 503 "},
	} {
		s.script(c.answer, c.hangUp)
		if got := converse(t, loop, c.request); !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}
