package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"pinboard"
	"pinboard/internal/directory"
	"pinboard/internal/ownership"
)

// jsonLog is a logger and what it wrote.
func jsonLog() (*slog.Logger, *bytes.Buffer) {
	var out bytes.Buffer
	return slog.New(slog.NewJSONHandler(&out, nil)), &out
}

func TestCommitsAreOneLineEach(t *testing.T) {
	log, out := jsonLog()
	began := map[ownership.Cause]int{}
	j := &journal{log: log, began: func(cause ownership.Cause) { began[cause]++ }}
	for bucket := range 3 {
		tx := &ownership.Tx{Server: "srv-1", Bucket: bucket, Now: 1000, Meta: ownership.Meta{Cold: 5_001_000}}
		tx.Out.Entries = []ownership.Entry{
			{Cause: "generation"}, {Cause: "restate ordered", Session: "s1"}, {Cause: "placed", Key: "*/t/quiet"},
			{Cause: "moved", Key: fmt.Sprintf("*/t/a%d", bucket), Session: "s2", Mint: &ownership.Mint{Epoch: pinboard.Epoch(70 + bucket)}},
		}
		j.committed(tx)
	}
	now := time.Now()
	begin := func(server string, bucket int, cause ownership.Cause) {
		tx := &ownership.Tx{Server: server, Bucket: bucket, Sent: now}
		tx.Out.Entries = []ownership.Entry{{Cause: cause}}
		j.committed(tx)
	}
	begin("srv-2", 0, "generation")
	for range 2 { // a clock that steps twice, in every bucket
		for bucket := range 3 {
			begin("srv-2", bucket, "clock stepped")
		}
	}
	begin("srv-2", 0, "history lost")
	now = now.Add(together) // so late it is another loss
	begin("srv-2", 1, "history lost")
	for line, n := range map[string]int{
		`"level":"INFO","msg":"new generation of a store server","cause":"generation","server":"srv-1","coldMs":5000`: 1,
		`"level":"INFO","msg":"new generation of a store server","cause":"generation","server":"srv-2","coldMs":0`:    1,
		`"level":"WARN","msg":"new generation of a store server","cause":"clock stepped","server":"srv-2"`:            2,
		`"level":"WARN","msg":"new generation of a store server","cause":"history lost","server":"srv-2"`:             2,
		`"msg":"worker told to restate","session":"s1"`:                                                               1,
		`"msg":"id moved","id":"/t/a0","session":"s2","epoch":"70"`:                                                   1,
		`"msg":"id moved","id":"/t/a2","session":"s2","epoch":"72"`:                                                   1,
		`quiet`: 0,
	} {
		if got := strings.Count(out.String(), line); got != n {
			t.Errorf("%d lines %s, want %d\n%s", got, line, n, out)
		}
	}
	if began["generation"] != 4 || began["clock stepped"] != 6 || began["history lost"] != 2 {
		t.Errorf("counted %v", began)
	}
}

// The first error of the store and each other one is a line; the same one
// again, also through another port, is none.
func TestStoreErrorsAreLoggedWhenTheyChange(t *testing.T) {
	log, out := jsonLog()
	now := time.Now()
	o := newOutage(log)
	o.now = func() time.Time { return now }
	refused := func(port int) error { return fmt.Errorf("dial 10.0.0.1:6379 from :%d: refused", port) }
	o.saw(nil)
	for port := range 100 {
		o.saw(refused(port))
		o.saw(nil) // another shard
		o.saw(fmt.Errorf("read: %w", context.Canceled))
	}
	o.saw(errors.New("OOM command not allowed"))
	o.saw(refused(7))
	if n := strings.Count(out.String(), `"msg":"the store fails"`); n != 2 {
		t.Errorf("%d lines for two errors:\n%s", n, out)
	}
	now = now.Add(calm)
	o.saw(nil)
	o.saw(nil)
	if n := strings.Count(out.String(), `"msg":"the store works again","failures":102`); n != 1 {
		t.Errorf("%d lines at the end of the outage:\n%s", n, out)
	}
	o.saw(refused(8))
	if n := strings.Count(out.String(), `refused`); n != 2 {
		t.Errorf("a second outage is not told:\n%s", out)
	}
	for i := range 10 * maxKinds { // bounded, whatever the errors are made of
		o.saw(errors.New(strings.Repeat("a", i)))
	}
	if n := strings.Count(out.String(), "\n"); n > maxKinds+10 {
		t.Errorf("%d lines", n)
	}
	if n := testing.AllocsPerRun(100, func() { newQuiet.saw(nil) }); n != 0 {
		t.Errorf("%v allocations for a call that worked", n)
	}
}

var newQuiet = newOutage(slog.New(slog.DiscardHandler))

type fakeWorkers []directory.WorkerInfo

func (f *fakeWorkers) Workers(context.Context, string, int) ([]directory.WorkerInfo, string, error) {
	return *f, "", nil
}

func TestLostWorkersAreToldOnce(t *testing.T) {
	log, out := jsonLog()
	l := &lostWorkers{log: log}
	list := &fakeWorkers{{SessionID: "old", State: "lapsed"}}
	l.look(t.Context(), list, 1) // lapsed before this node began
	*list = append(*list,
		directory.WorkerInfo{SessionID: "dead", State: "lapsed", AdvertiseURL: "http://w:1", Placed: 7, Owner: "main/chat"},
		directory.WorkerInfo{SessionID: "earlier generation", State: "lapsed", LeaseLeftMs: 900},
		directory.WorkerInfo{SessionID: "alive", State: "live"})
	for range 3 {
		l.look(t.Context(), list, 3)
	}
	l.look(t.Context(), list, 0)
	want := `"msg":"worker lost, its lease ran out","session":"dead","client":"","url":"http://w:1","namespaces":null,"placed":7,"token":"main/chat"`
	if text := out.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, want) {
		t.Errorf("want one line %s, got\n%s", want, text)
	}
}
