package main

import (
	"testing"

	"pinboard/internal/ownership"
)

func TestRepliesAreTakenWhole(t *testing.T) {
	whole := "*3\r\n$3\r\nrow\r\n$-1\r\n$0\r\n\r\n"
	var part [3][]byte
	for n := range len(whole) {
		if used, _, err := parseReply([]byte(whole[:n]), &part); used != 0 || err != nil {
			t.Errorf("%d bytes: used %d, %v", n, used, err)
		}
	}
	part = [3][]byte{}
	n, parts, err := parseReply([]byte(whole+"*"), &part)
	if n != len(whole) || parts != 3 || err != nil || string(part[0]) != "row" || part[1] != nil || part[2] == nil {
		t.Errorf("%d, %d, %v, %q", n, parts, err, part)
	}
	if n, parts, err := parseReply([]byte("-LOADING\r\n"), &part); n != 10 || parts != 0 || err != nil {
		t.Errorf("an error: %d, %d, %v", n, parts, err)
	}
	for _, bad := range []string{"+OK\r\n", "*4\r\n", "*3\r\n:1\r\n", "*3\r\n$x\r\n", "*\n"} {
		if _, _, err := parseReply([]byte(bad), &part); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

func TestLookUpNamesRowLeaseAndGeneration(t *testing.T) {
	key := ownership.Key{Env: "*", Namespace: "/threads", ID: "t_1"}
	got := string(appendHit(nil, "pb", 12, key, runID, session))
	want := "*4\r\n$4\r\nMGET\r\n$19\r\npb{12}*/threads/t_1\r\n$34\r\npb{12}%l:0123456789ab\x01" +
		string(appendSession(nil, session)) + "\r\n$8\r\npb{12}%g\r\n"
	if got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// The server is 500 ahead, shown within a trip of 100.
func TestClockOfTheServer(t *testing.T) {
	e := estimateOf(10_550, 10_000, 10_100)
	if e.lo != 450 || e.hi != 551 {
		t.Errorf("%+v", e)
	}
	// Certainly not over at 20,000 - hi, and a thousandth of the time since.
	if got := e.until(20_000); got > 20_000-e.hi || got < 20_000-e.hi-10 {
		t.Errorf("until %d", got)
	}
	later := estimateOf(1_010_500, 1_009_990, 1_010_010)
	if m := later.met(e); m.lo != later.lo || m.hi != later.hi {
		t.Errorf("an old estimate that has grown wide narrowed %+v to %+v", later, m)
	}
	if m := estimateOf(10_550, 10_000, 10_600).met(e); m.lo < e.lo-1 || m.hi > e.hi+1 {
		t.Errorf("a wide reading widened it to %+v", m)
	}
}
