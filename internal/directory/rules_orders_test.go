package directory_test

import (
	"testing"
	"time"

	"pinboard"
	"pinboard/internal/directory"
	"pinboard/internal/ownership"
)

func TestF2StreamsAreCutWhenTheRowIsGoneOrAnothersAndNotByARestatement(t *testing.T) {
	w := newWorld(t, 1).warm()
	a := w.proc("w1").register(0)
	p := w.place(0, "a")
	watch := &directory.Watch{Key: p.Key, Process: p.Worker.Process, Deadline: p.Deadline}
	check := func(cut bool, deadline time.Duration) {
		t.Helper()
		if err := w.nodes[0].Recheck(bg, []*directory.Watch{watch}); err != nil {
			t.Fatal(err)
		}
		if watch.Cut != cut || !cut && watch.Deadline.Sub(w.now) != deadline {
			t.Fatalf("cut %v, deadline in %v; want %v, %v", watch.Cut, watch.Deadline.Sub(w.now), cut, deadline)
		}
	}
	w.after(lease / 3)
	check(false, lease*2/3)
	a.mustBeat(0)
	check(false, lease)
	a.register(0, "a")
	w.after(time.Second)
	check(false, lease-time.Second)
	a.release(0, "a", p.Epoch)
	check(true, 0)
	watch.Cut = false
	w.proc("w2").register(0)
	w.after(lease - time.Second)
	w.proc("w2").register(0)
	w.refused(0, "a", pinboard.NoLiveBackends) // w2 has a past and has not beaten
	w.proc("w3").register(0)
	if got := w.place(0, "a"); got.Worker.ClientID != "w3" {
		t.Fatalf("got %+v", got)
	}
	check(true, 0)
}

func TestF4AWindDownEndsByTheWorkersReleaseAndNotByAckOrDeadline(t *testing.T) {
	w := newWorld(t, 2).warm()
	a := w.proc("w1").register(0)
	p := w.place(0, "a")
	order := time.Duration(0)
	if ok, err := w.nodes[0].WindDown(bg, directory.WindDown{Namespace: "/threads", ID: "a", Deadline: &order}); !ok || err != nil {
		t.Fatal(ok, err)
	}
	beat := func(acks ...string) []ownership.Message {
		t.Helper()
		g, err := w.nodes[1].Beat(bg, ownership.Beat{Session: a.session, Headroom: 100, Proof: ownership.ProofOK, Acks: acks, HasAcks: len(acks) > 0})
		if err != nil {
			t.Fatal(err)
		}
		return g.Messages
	}
	w.after(lease / 3)
	ms := beat()
	if len(ms) != 1 || *ms[0].Deadline != lease*2/3 || ms[0].ID != "a" || ms[0].NS != "/threads" {
		t.Fatalf("floored once to one lease and aged since: %+v", ms)
	}
	if again := beat(); len(again) != 1 || again[0].MsgID != ms[0].MsgID {
		t.Fatalf("redelivered: %+v", again)
	}
	if left := beat(ms[0].MsgID); len(left) != 0 {
		t.Fatalf("after the ack: %+v", left)
	}
	w.place(0, "a") // until the deadline requests are forwarded
	w.after(lease * 2 / 3)
	w.refused(0, "a", pinboard.WindingDown)
	evict := beat()
	if len(evict) != 1 || *evict[0].Deadline != 0 || evict[0].MsgID == ms[0].MsgID {
		t.Fatalf("eviction: %+v", evict)
	}
	beat(evict[0].MsgID)
	w.refused(0, "a", pinboard.WindingDown)
	if a.release(0, "a", p.Epoch) != 1 {
		t.Fatal("not released")
	}
	w.place(0, "a")
	if left := beat(); len(left) != 0 {
		t.Fatalf("orders outlive the row: %+v", left)
	}
}

func TestF4ARevokeVoidsTheEviction(t *testing.T) {
	w := newWorld(t, 1).warm()
	a := w.proc("w1").register(0)
	w.place(0, "a")
	d := time.Minute
	w.nodes[0].WindDown(bg, directory.WindDown{Namespace: "/threads", ID: "a", Deadline: &d})
	w.nodes[0].WindDown(bg, directory.WindDown{Namespace: "/threads", ID: "a"})
	g := a.mustBeat(0)
	if len(g.Messages) != 1 || g.Messages[0].Deadline != nil {
		t.Fatalf("messages %+v", g.Messages)
	}
	for range 6 {
		w.after(lease / 2)
		a.mustBeat(0)
	}
	w.place(0, "a")
}

func TestF4AMutedWorkerGetsAnOrderTwiceAndARestateOrderAfterFourLeases(t *testing.T) {
	w := newWorld(t, 1).warm()
	a := w.proc("w1").register(0)
	w.place(0, "a")
	d := time.Duration(0)
	w.nodes[0].WindDown(bg, directory.WindDown{Namespace: "/threads", ID: "a", Deadline: &d})
	got := map[string]int{}
	for range 40 {
		g, err := w.nodes[0].Beat(bg, ownership.Beat{Session: a.session, Headroom: 1, Proof: ownership.ProofOK})
		if isReregister(err) {
			a.register(0) // not listed
			w.after(lease)
			a.register(0).beatWith(0, ownership.ProofOK)
			w.after(lease) // it never acked: R5
			a.register(0).beatWith(0, ownership.ProofOK)
			w.place(0, "a")
			if len(got) != 2 {
				t.Fatalf("orders %v, want the wind-down and the eviction", got)
			}
			for id, n := range got {
				if n != 2 {
					t.Fatalf("order %s delivered %d times", id, n)
				}
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range g.Messages {
			got[m.MsgID]++
		}
		w.after(lease / 5)
	}
	t.Fatal("no restate order")
}

func TestOpenOrdersFollowTheProcessToItsNewSession(t *testing.T) {
	w := newWorld(t, 1).warm()
	a := w.proc("w1").register(0)
	w.place(0, "a")
	d := time.Minute
	w.nodes[0].WindDown(bg, directory.WindDown{Namespace: "/threads", ID: "a", Deadline: &d})
	before := a.mustBeat(0).Messages
	w.after(time.Second)
	a.register(0, "a")
	after := a.mustBeat(0).Messages
	if len(before) != 1 || len(after) != 1 || after[0].MsgID == before[0].MsgID || *after[0].Deadline != d-time.Second {
		t.Fatalf("before %+v after %+v", before, after)
	}
}
