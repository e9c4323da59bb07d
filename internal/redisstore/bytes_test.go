package redisstore

import (
	"encoding/hex"
	"encoding/json"
	"testing"

	"pinboard/internal/ownership"
)

// What is stored is fixed byte by byte: a renamed field, a moved one or another
// number of a constant changes nothing that an earlier node has written.
func TestStoredBytes(t *testing.T) {
	worker, _ := encodeWorker(&ownership.Worker{Session: "s", Process: "p", ClientID: "c", Secret: "k", URL: "http://w", Namespaces: []string{"/t"}, Hostname: "h", Env: "e",
		Envs: map[string]string{"/t": "f"}, Takeover: "deny", BindEpoch: 1, Owner: "o", Proven: true, PathInURL: true, SendSecret: true, Past: true, LeaseMs: 2})
	entry, err := json.Marshal(&ownership.Entry{At: 1, Cause: ownership.WasPlaced, Key: "*/t/x", Session: "s", Epoch: 2, Count: 3, Node: "n"})
	if err != nil {
		t.Fatal(err)
	}
	lease := encodeLease(1, &ownership.Lease{Gen: "g", Until: 1, TTL: 2, At: 3, Headroom: 4, HeardAt: 5, Beaten: true, OwnDrain: true, Drain: true, DrainAt: 6, Degraded: 7,
		FailSince: 8, ProvedAt: 9, ReplacedBy: "r", State: ownership.State{Phase: ownership.LetGo, Asked: 10, Free: 11, Next: "n", Behind: []string{"b"}},
		Ordered: 12, Acks: true, Aborts: true, Ejected: true, DisplacedBy: "d", DisplacedAt: 13})
	row := encodeRow(&ownership.Row{Kind: ownership.Closing, Session: "abcdefghijkl_-01", Epoch: 1, Since: 2, Until: 3, Made: 4, Claim: "c", Taken: 5, Tag: "t", Others: "o", Twin: "w"})
	for _, c := range []struct{ what, got, want string }{
		{"worker", worker, `{"session":"s","process":"p","client":"c","secret":"k","url":"http://w","namespaces":["/t"],"hostname":"h","env":"e","envs":{"/t":"f"},"takeover":"deny","bindEpoch":1,"owner":"o","proven":true,"pathInUrl":true,"sendSecret":true,"past":true,"leaseMs":2}`},
		{"order", encodeOrders([]ownership.Order{{MsgID: "m", Key: ownership.Key{Env: "e", Namespace: "/t", ID: "x"}, Epoch: 1, Revoke: true, Evict: true, Delivered: 2, Acked: true, Passed: 3}}),
			`[{"msg":"m","key":{"env":"e","ns":"/t","id":"x"},"epoch":1,"revoke":true,"evict":true,"delivered":2,"acked":true,"passed":3}]`},
		{"entry", string(entry), `{"at":1,"cause":"placed","key":"*/t/x","sessionId":"s","epoch":"2","count":3,"node":"n"}`},
		{"lease", hex.EncodeToString([]byte(lease)), "000000000000000101ffffff026702040640100000000000000a0c0710120272041416026e0202621802641a"},
		{"row", hex.EncodeToString([]byte(row)), "63000000000000000169b71d79f8218a3925ffed35020403060408060a07026308027409026f0a0277"},
		{"binding", hex.EncodeToString([]byte(encodeBinding(&ownership.Binding{Env: "e", Epoch: 1, Wait: 2, By: 3, Was: "w", WasEpoch: 4}))), "000000000000000100000000000000020000000000000003000000000000000400017765"},
		{"meta", hex.EncodeToString([]byte(encodeMeta(&ownership.Meta{Gen: "g", Since: 1, Cold: 2, Longest: 3}))), "0267020406"},
	} {
		if c.got != c.want {
			t.Errorf("%s is stored as\n%s, want\n%s", c.what, c.got, c.want)
		}
	}
}
