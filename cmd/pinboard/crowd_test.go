package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pinboard/internal/directory"
	"pinboard/internal/rawtest"
)

// A crowd explains what operators look at for a while, and no longer.
func TestTheHintOfACrowdFades(t *testing.T) {
	log, out := jsonLog()
	c := crowdHint{log: log}
	if c.hint(time.Now()) != "" {
		t.Error("a hint without a crowd")
	}
	c.told(directory.Crowd{Session: "s", IDs: 100, Of: 120, Workers: 3})
	if want := `"session":"s","ids":100,"of":120,"workers":3,`; !strings.Contains(out.String(), want) {
		t.Errorf("no %s in %s", want, out)
	}
	if text := c.hint(time.Now()); !strings.HasPrefix(text, "100 of the last 120 new ids of this node had one affinity key and went to one of 3 workers") {
		t.Error(text)
	}
	if text := c.hint(time.Now().Add(2 * crowdShown)); text != "" {
		t.Error(text)
	}
}

// All ids of one address on one worker: the log and the overview say that it is
// affinity, without the address.
func TestAffinityExplainsItself(t *testing.T) {
	t.Parallel()
	for affinity, crowd := range map[string]bool{"ip": true, "none": false} {
		p := serve(t, "PINBOARD_AFFINITY="+affinity, "PINBOARD_BALANCE_FACTOR=1000").ready()
		for range 2 {
			p.register(rawtest.NewWorker(t, rawtest.Always(rawtest.Response(200, "ok"))), "/t")
		}
		for i := range 101 {
			if status, body := p.get(fmt.Sprint("/t/", i)); status != 200 {
				t.Fatalf("%d %s", status, body)
			}
		}
		const line = "one affinity key has most of the new ids, all on one worker"
		if crowd {
			p.line(line)
		}
		_, overview := p.getAs(secret, "/registry/overview")
		logged := strings.Count(p.log(), line)
		if crowd != strings.Contains(overview, `"affinityHint":"100 of the last 100 new ids`) || crowd != (logged == 1) {
			t.Errorf("%s: %d lines, %s", affinity, logged, overview)
		}
		if strings.Contains(p.log()+overview, `"127.0.0.1"`) {
			t.Errorf("%s: the client's address is told", affinity)
		}
	}
}
