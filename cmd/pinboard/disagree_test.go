package main

import (
	"strings"
	"testing"

	"pinboard/internal/rawtest"
	"pinboard/internal/redistest"
)

// A store that is emptied under a running node and set up otherwise: the node
// serves nothing, says why wherever an operator looks, and comes back by itself.
func TestAStoreThatWasSetUpOtherwise(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	p := onRedis(t, r.URL()).ready()
	w := rawtest.NewWorker(t, rawtest.Always(rawtest.Response(200, "ok")))
	p.register(w, "/t")
	serves := func() bool { status, _ := p.get("/t/warm-up"); return status == 200 }
	p.wait("service", serves)

	// As if a node with 8 buckets came first behind a FLUSHALL.
	anew := func(header string) {
		r.Do("EVAL", "redis.call('FLUSHALL') redis.call('SET', 'pb{0}%h', ARGV[1])", "0", header)
	}
	const why = "the store was set up with bucket count 8, this node has 16"
	anew("2 8 plain")
	p.wait("a node that is not ready", func() bool {
		status, _ := p.get("/readyz")
		return status == 503
	})
	said := map[string]string{}
	_, said["/readyz"] = p.get("/readyz")
	status, health := p.getAs(secret, "/registry/health")
	if said["/registry/health"] = health; status != 200 || !strings.Contains(health, `"version":`) {
		t.Errorf("/registry/health: %d %s", status, health)
	}
	said["log"] = p.line("this node serves no id: its store was set up differently")["reason"].(string)
	for where, text := range said {
		if !strings.Contains(text, why) || strings.Contains(text, r.Addr) {
			t.Errorf("%s: %s", where, text)
		}
	}
	gauge := func(line string) bool {
		_, text := p.get("/metrics")
		return strings.Contains(text, "\n"+line+"\n")
	}
	if !gauge("pinboard_store_disagrees 1") || !gauge("pinboard_ready 0") {
		t.Error("the metrics do not say so")
	}
	other := onRedis(t, r.URL(), "PINBOARD_BUCKETS=8").ready()
	for _, id := range []string{"warm-up", "a", "b", "c"} {
		if status, body := p.get("/t/" + id); status != 503 || !strings.Contains(body, "registry unavailable, retry") {
			t.Errorf("/t/%s: %d %s", id, status, body)
		}
	}
	if status, _ := other.get("/readyz"); status != 200 {
		t.Errorf("the other node: %d", status)
	}

	anew("2 16 plain")
	p.line("the store agrees with this node again")
	p.register(w, "/t")
	p.wait("service again", serves)
	if status, body := p.get("/readyz"); status != 200 || strings.Contains(body, "reason") || !gauge("pinboard_store_disagrees 0") {
		t.Errorf("/readyz: %d %s", status, body)
	}
	if status, _ := other.get("/t/a"); status != 503 {
		t.Errorf("the other node now: %d", status)
	}
}

// A header that differs also stops what a hit would serve.
func TestAHeaderThatWasChangedByHand(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	p := onRedis(t, r.URL()).ready()
	w := rawtest.NewWorker(t, rawtest.Always(rawtest.Response(200, "ok")))
	p.register(w, "/t")
	p.wait("service", func() bool { status, _ := p.get("/t/warm-up"); return status == 200 })
	r.Do("SET", "pb{0}%h", "2 8 plain")
	p.wait("its end", func() bool { status, _ := p.get("/readyz"); return status == 503 })
	if status, body := p.get("/t/warm-up"); status != 503 {
		t.Errorf("%d %s", status, body)
	}
	r.Do("SET", "pb{0}%h", "2 16 plain")
	p.wait("service again", func() bool { status, _ := p.get("/t/warm-up"); return status == 200 })
}
