package ownership

import "testing"

// TestWhoIsKeptFromABinding: every state of a binding, against registrations of
// its own env and of another one, at lower, equal and higher epochs, let in by
// the deciding bucket or not.
func TestWhoIsKeptFromABinding(t *testing.T) {
	const now = 100
	held := &Binding{Env: "red", Epoch: 5}
	claimed := &Binding{Env: "red", Epoch: 5, By: now + 1, Was: "blue", WasEpoch: 4}
	late := &Binding{Env: "red", Epoch: 5, By: now, Was: "blue", WasEpoch: 4}
	for _, c := range []struct {
		b          *Binding
		env        string
		epoch      int64
		decided    bool
		held, wait bool
	}{
		{nil, "green", 0, false, false, false},
		{&Binding{Wait: now + 9}, "green", 0, false, false, false},
		{held, "red", 1, false, false, false},
		{held, "green", 4, false, true, false},
		{held, "green", 4, true, true, false},
		{held, "green", 5, false, true, false},
		{held, "green", 5, true, false, false},
		{held, "green", 6, false, false, false},
		{claimed, "red", 1, false, false, false},
		{claimed, "blue", 1, false, false, false},
		{claimed, "green", 5, false, false, true},
		{claimed, "green", 5, true, false, false},
		{claimed, "green", 6, false, false, false},
		{late, "green", 1, false, false, false},
	} {
		if held, wait := c.b.refuses(c.env, c.epoch, c.decided, now); held != c.held || wait != c.wait {
			t.Errorf("%+v, %s at %d, decided %v: held %v, wait %v", c.b, c.env, c.epoch, c.decided, held, wait)
		}
	}
}

// TestAClaimOnABinding: what a registration that is let in leaves behind.
func TestAClaimOnABinding(t *testing.T) {
	const by = 700
	claimed := Binding{Env: "red", Epoch: 5, Wait: 3, By: 600, Was: "blue", WasEpoch: 4}
	for _, c := range []struct {
		name  string
		b     *Binding
		env   string
		epoch int64
		want  Binding
	}{
		{"nobody was there", nil, "red", 7, Binding{Env: "red", Epoch: 7, By: by}},
		{"deleted: its wait stays", &Binding{Wait: 3}, "red", 7, Binding{Env: "red", Epoch: 7, Wait: 3, By: by}},
		{"its own, proved", &Binding{Env: "red", Epoch: 5, Wait: 3}, "red", 7, Binding{Env: "red", Epoch: 7, Wait: 3}},
		{"its own, a lower epoch takes nothing back", &Binding{Env: "red", Epoch: 5}, "red", 4, Binding{Env: "red", Epoch: 5}},
		{"its own, not proved yet", &claimed, "red", 5, Binding{Env: "red", Epoch: 5, Wait: 3, By: by, Was: "blue", WasEpoch: 4}},
		{"the incumbent, not newer", &claimed, "blue", 5, claimed},
		{"the incumbent, newer than the claim", &claimed, "blue", 6, Binding{Env: "blue", Epoch: 6, Wait: 3}},
		{"a third one, over a claim", &claimed, "green", 6, Binding{Env: "green", Epoch: 6, Wait: 3, By: by, Was: "blue", WasEpoch: 4}},
		{"another env displaces", &Binding{Env: "red", Epoch: 5, Wait: 3}, "blue", 7, Binding{Env: "blue", Epoch: 7, Wait: 3, By: by, Was: "red", WasEpoch: 5}},
	} {
		if got := c.b.claim(c.env, c.epoch, by); *got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, *got, c.want)
		}
	}
}

// TestAClaimEndsAtItsTime: to the microsecond, and only where somebody was
// there before.
func TestAClaimEndsAtItsTime(t *testing.T) {
	claimed := Binding{Env: "red", Epoch: 5, Wait: 3, By: 600, Was: "blue", WasEpoch: 4}
	if got := settled(&claimed, 599); *got != claimed {
		t.Errorf("before: %+v", *got)
	}
	if got, want := settled(&claimed, 600), (Binding{Env: "blue", Epoch: 4, Wait: 3}); *got != want {
		t.Errorf("then: %+v", *got)
	}
	first := Binding{Env: "red", Epoch: 5, By: 600}
	if got := settled(&first, 600); *got != first {
		t.Errorf("nobody was there before: %+v", *got)
	}
	if claimed.InForce() != "blue" || first.InForce() != "red" || settled(nil, 0) != nil {
		t.Error("in force")
	}
}
