package main

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"pinboard/internal/metrics"
	"pinboard/internal/rawtest"
	"pinboard/internal/redisstore"
	"pinboard/internal/redistest"
)

// onRedis starts a node on a store with a short lease.
func onRedis(t *testing.T, url string, variables ...string) *process {
	return serve(t, append([]string{"REDIS_URL=" + url, "PINBOARD_COLD_START=", "PINBOARD_LEASE_TTL_MS=2000"}, variables...)...)
}

// A store that must not be used ends the start with one line and exit 2.
func TestUnfitStoresAreRefused(t *testing.T) {
	t.Parallel()
	evicting := redistest.Start(t, "maxmemory 100mb", "maxmemory-policy allkeys-lru")
	shared := redistest.Start(t)
	onRedis(t, shared.URL()).ready().signal(syscall.SIGTERM)
	for name, tt := range map[string]struct {
		url, variable, want string
	}{
		"evicts":        {evicting.URL(), "", "pinboard: REDIS_URL: the store evicts keys"},
		"other buckets": {shared.URL(), "PINBOARD_BUCKETS=8", "pinboard: REDIS_URL: the store was set up with bucket count 16"},
		"other mode":    {shared.URL(), "PINBOARD_HOSTNAME_AWARE=1", "pinboard: REDIS_URL: the store was set up with mode plain"},
		"not safe":      {shared.URL(), "PINBOARD_REQUIRE_SAFE_STORE=1", "pinboard: REDIS_URL: the store cannot keep single ownership"},
	} {
		t.Run(name, func(t *testing.T) {
			p := onRedis(t, tt.url, tt.variable)
			if code := p.exit(); code != 2 {
				t.Errorf("exit %d", code)
			}
			if line := p.stderr.String(); !strings.HasPrefix(line, tt.want) || strings.Count(line, "\n") != 1 {
				t.Errorf("stderr %q", line)
			}
		})
	}
	onRedis(t, evicting.URL(), "PINBOARD_ALLOW_EVICTING_REDIS=1").ready()
}

func TestSignalWhileTheStoreIsAway(t *testing.T) {
	t.Parallel()
	p := onRedis(t, "redis://"+redistest.FreeAddr(t), "PINBOARD_SHUTDOWN_NOTICE_MS=5000").listening()
	p.line("the store cannot be reached, trying on")
	if status, body := p.get("/readyz"); status != 503 || !strings.Contains(body, "booting") {
		t.Errorf("/readyz: %d %s", status, body)
	}
	if status, _ := p.get("/healthz"); status != 200 {
		t.Errorf("/healthz: %d", status)
	}
	if status, body := p.get("/t/a"); status != 503 || !strings.Contains(body, "registry unavailable, retry") {
		t.Errorf("/t/a: %d %s", status, body)
	}
	if status, body := p.get("/registry/workers"); status != 401 { // FC-55: even now
		t.Errorf("/registry without a token: %d %s", status, body)
	}
	if status, body := p.getAs(secret, "/registry/workers"); status != 503 || !strings.Contains(body, "registry unavailable, retry") {
		t.Errorf("/registry: %d %s", status, body)
	}
	begun := time.Now()
	p.signal(syscall.SIGTERM)
	if code := p.exit(); code != 0 || time.Since(begun) > 3*time.Second {
		t.Errorf("exit %d after %v", code, time.Since(begun))
	}
}

// The life of a fleet, read off the log of a node.
func TestTheLogTellsWhoLostWhat(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	p := onRedis(t, r.URL()).ready()
	ok := rawtest.Always(rawtest.Response(200, "ok"))
	w := rawtest.NewWorker(t, ok)
	s := p.register(w, "/t")
	if l := p.line("worker registered"); l["session"] != s.ID || l["url"] != w.URL() || l["token"] != "/PINBOARD_TOKEN" {
		t.Errorf("%v", l)
	}
	s.Pause() // as dead as a process can be for its node
	if l := p.line("worker lost, its lease ran out"); l["session"] != s.ID || l["url"] != w.URL() || l["level"] != "WARN" {
		t.Errorf("%v", l)
	}
	heir := rawtest.NewWorker(t, ok)
	h := p.register(heir, "/t")
	if l := p.line("id moved"); l["id"] != "/t/warm-up" || l["session"] != h.ID || l["epoch"] == "0" {
		t.Errorf("%v", l)
	}
	for msg, n := range map[string]int{"new generation of a store server": 1, "worker registered": 2, "worker lost, its lease ran out": 1, "id moved": 1} {
		if got := strings.Count(p.log(), `"msg":"`+msg+`"`); got != n {
			t.Errorf("%d lines %q, want %d", got, msg, n)
		}
	}
}

// While it boots, the log tells the first error of the store and each other one.
func TestErrorsOfABootAreLoggedWhenTheyChange(t *testing.T) {
	t.Parallel()
	addr := redistest.FreeAddr(t)
	p := onRedis(t, "redis://"+addr).listening()
	told := func() int { return strings.Count(p.log(), `"msg":"the store cannot be reached, trying on"`) }
	p.wait("the first error", func() bool { return told() == 1 })
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dials := make(chan struct{}, 100)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Close() // a server that hangs up is another error than none
			dials <- struct{}{}
		}
	}()
	p.wait("another error", func() bool { return told() >= 2 })
	for range 6 {
		<-dials
	}
	if n := told(); n > 3 { // hanging up shows in two ways, in turns
		t.Errorf("%d lines", n)
	}
}

// FC-63: an outage of the store never shows in /healthz, shows in /readyz with
// hysteresis, and heals by itself.
func TestProbesThroughAnOutage(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	relay := redistest.NewRelay(t, r.Addr)
	p := onRedis(t, relay.URL(), "PINBOARD_LEASE_TTL_MS=8000").ready()
	w := rawtest.NewWorker(t, rawtest.Always(rawtest.Response(200, "ok")))
	p.register(w, "/t")

	seen := map[int]int{}
	poll := func(until int) time.Duration {
		begun := time.Now()
		p.wait("the change of /readyz", func() bool {
			if status, _ := p.get("/healthz"); status != 200 {
				t.Errorf("/healthz: %d", status)
			}
			status, _ := p.get("/readyz")
			seen[status]++
			return status == until
		})
		return time.Since(begun)
	}
	relay.Refuse(true)
	relay.Cut()
	begun := time.Now()
	if status, body := p.get("/t/warm-up"); status != 503 || time.Since(begun) > 2*time.Second {
		t.Errorf("a placed id during the outage: %d %s after %v", status, body, time.Since(begun))
	}
	if took := poll(503); took < time.Second {
		t.Errorf("/readyz gave up after %v", took)
	}
	relay.Refuse(false)
	if took := poll(200); took > 5*time.Second {
		t.Errorf("ready again after %v", took)
	}
	p.wait("the id to be served again", func() bool {
		status, _ := p.get("/t/warm-up")
		return status == 200
	})
	if _, text := p.get("/metrics"); !strings.Contains(text, `pinboard_store_errors_total{op="update"} `) || strings.Contains(text, `pinboard_store_errors_total{op="update"} 0`) {
		t.Error("the outage is not in the metrics")
	}
}

// A store that answers slowly, or takes no writes, still resolves: the node
// stays ready.
func TestReadyOnASlowOrReadOnlyStore(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	relay := redistest.NewRelay(t, r.Addr)
	p := onRedis(t, relay.URL()).ready()
	stays := func(what string) {
		t.Helper()
		for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
			if status, body := p.get("/readyz"); status != 200 {
				t.Fatalf("%s: %d %s", what, status, body)
			}
		}
	}
	relay.Rule(func([]string) redistest.Fault { return redistest.DelayReply(time.Second) })
	stays("slow")
	relay.Rule(nil)
	r.Do("CONFIG", "SET", "min-replicas-to-write", "1")
	stays("read-only")
}

// The password of the store is rotated under a running node: it never restarts.
func TestPasswordOfTheStoreRotates(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	file := filepath.Join(t.TempDir(), "redis-url")
	rotate := func(password string) {
		r.AddUser("pb", password, "~*", "+@all")
		if err := os.WriteFile(file, []byte("redis://pb:"+password+"@"+r.Addr+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	rotate(secret + "-1")
	p := onRedis(t, "", "REDIS_URL_FILE="+file).ready()
	w := rawtest.NewWorker(t, rawtest.Always(rawtest.Response(200, "ok")))
	p.register(w, "/t")
	rotate(secret + "-2")
	r.Disconnect()
	p.wait("service with the new password", func() bool {
		placed, _ := p.get("/t/warm-up")
		fresh, _ := p.get("/t/fresh")
		return placed == 200 && fresh == 200
	})
	p.signal(syscall.SIGTERM)
	p.exit()
	if all := p.log() + p.stderr.String(); strings.Contains(all, secret) {
		t.Errorf("the password is in the log:\n%s", all)
	}
}

// The states of the metric are those of the store.
func TestStoreStatesAreTheMetrics(t *testing.T) {
	var states []string
	for _, s := range redisstore.States {
		states = append(states, string(s))
	}
	if !slices.Equal(states, metrics.StoreStates) {
		t.Errorf("%v and %v", states, metrics.StoreStates)
	}
	t.Parallel()
	p := onRedis(t, redistest.Start(t).URL()).ready()
	if _, text := p.get("/metrics"); !strings.Contains(text, `pinboard_store_guarantee{state="one_server"} 1`) {
		t.Error("one healthy server is not shown as such")
	}
}

func TestSecretsOfTheStoreStayHidden(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	r.AddUser("pb", secret, "~*", "&*", "+@all")
	url := strings.Replace(r.URL(), "redis://", "redis://pb:"+secret+"@", 1)
	p := onRedis(t, url, "LOG_LEVEL=debug").ready()
	r.Stop()
	p.line("the store fails")
	if why, _ := p.line("not ready")["error"].(string); !strings.Contains(why, "connect") {
		t.Errorf("not ready because of %q", why)
	}
	p.signal(syscall.SIGTERM)
	p.exit()
	if all := p.log() + p.stderr.String(); strings.Contains(all, secret) {
		t.Errorf("the password is in the log:\n%s", all)
	}
}
