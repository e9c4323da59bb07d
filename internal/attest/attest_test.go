package attest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "ask the real verifier again ($PINNED_PYTHON) and rewrite testdata/ours.json")

type vectors struct {
	Secret string
	Now    int64
	Aud    string
	Minted []struct {
		Token  string
		Caller string
		Depth  int
	}
	Judged []struct {
		Name, Token string
		Valid       bool
	}
}

func load(t *testing.T, name string, v any) {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name)
	if err == nil {
		err = json.Unmarshal(b, v)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func only(aud string) func(string) bool { return func(s string) bool { return s == aud } }

// Every verdict of the real client's verifier is ours too, and what the real
// client mints we read.
func TestVectorsOfTheRealClient(t *testing.T) {
	var v vectors
	load(t, "vectors.json", &v)
	now := time.Unix(v.Now, 0)
	for _, c := range v.Judged {
		if _, err := Verify(c.Token, v.Secret, only(v.Aud), now); (err == nil) != c.Valid {
			t.Errorf("%s: real client says valid=%v, we say %v", c.Name, c.Valid, err)
		}
	}
	for _, c := range v.Minted {
		got, err := Verify(c.Token, v.Secret, only(v.Aud), now)
		want := Claims{Audience: v.Aud, Issued: now, Expires: now.Add(30 * time.Second), Caller: c.Caller, Depth: c.Depth}
		if d := cmp.Diff(want, got); err != nil || d != "" {
			t.Errorf("caller %q: %v %s", c.Caller, err, d)
		}
	}
}

// A judged token of ours: what we minted, and the claims the real verifier
// read out of it (null: refused).
type judged struct {
	Secret, Aud, Caller string
	Depth               int
	Now                 int64
	Token               string
	Claims              map[string]any
}

// What we mint the real client accepts, with the claims we meant. The verdicts
// are committed; -update asks again.
func TestRealClientAcceptsOurs(t *testing.T) {
	var list []judged
	load(t, "ours.json", &list)
	for i, c := range list {
		got := string(Append(nil, c.Secret, c.Aud, c.Caller, c.Depth, time.Unix(c.Now, 999e6)))
		if *update {
			list[i].Token, list[i].Claims = got, ask(t, c, got)
			continue
		}
		if got != c.Token {
			t.Errorf("%q: minted %s, the real client judged %s", c.Caller, got, c.Token)
		}
	}
	if *update {
		b, _ := json.MarshalIndent(list, "", " ")
		if err := os.WriteFile("testdata/ours.json", append(b, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range list {
		want := map[string]any{"aud": c.Aud, "iat": float64(c.Now), "exp": float64(c.Now + 1)}
		if c.Caller != "" {
			want["caller"], want["depth"] = c.Caller, float64(c.Depth)
		}
		if d := cmp.Diff(want, c.Claims); d != "" {
			t.Errorf("%q: %s", c.Caller, d)
		}
	}
}

func ask(t *testing.T, c judged, token string) (claims map[string]any) {
	t.Helper()
	q, _ := json.Marshal(map[string]any{"token": token, "secret": c.Secret, "aud": c.Aud, "now": c.Now})
	cmd := exec.Command(os.Getenv("PINNED_PYTHON"), "testdata/judge.py")
	cmd.Stdin, cmd.Stderr = bytes.NewReader(append(q, '\n')), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("PINNED_PYTHON must be a Python with pinned installed: %v", err)
	}
	if err := json.NewDecoder(bufio.NewReader(bytes.NewReader(out))).Decode(&claims); err != nil {
		t.Fatal(err)
	}
	return claims
}

// The audience window and the clock, to the second.
func TestTime(t *testing.T) {
	issued := time.Unix(1_800_000_000, 0)
	token := string(Append(nil, "k", "s", "", 0, issued))
	for _, c := range []struct {
		at time.Duration
		ok bool
	}{{-31 * time.Second, false}, {-30 * time.Second, true}, {0, true}, {31 * time.Second, true}, {32 * time.Second, false}} {
		if _, err := Verify(token, "k", only("s"), issued.Add(c.at)); (err == nil) != c.ok {
			t.Errorf("%v after issue: %v", c.at, err)
		}
	}
	if _, err := Verify(token, "k", only("other"), issued); err == nil {
		t.Error("another session's token was accepted")
	}
}

// A loop is a token of any session this fleet knows, at any age; anything a
// client could make up is not.
func TestOurs(t *testing.T) {
	keys := func(session string) (string, bool) { return "key-" + session, session != "unknown" }
	old := time.Unix(1, 0)
	for name, c := range map[string]struct {
		token string
		want  bool
	}{
		"ours":            {string(Append(nil, "key-s", "s", "", 0, old)), true},
		"with caller":     {string(Append(nil, "key-s", "s", "/t/a", 2, old)), true},
		"guessed key":     {string(Append(nil, "guess", "s", "", 0, old)), false},
		"unknown session": {string(Append(nil, "key-unknown", "unknown", "", 0, old)), false},
		"empty":           {"", false},
		"dots":            {"..", false},
		"garbage":         {strings.Repeat("x", 4096), false},
	} {
		if got := Ours([]byte(c.token), keys); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// Formed looks at the form only.
func TestFormed(t *testing.T) {
	token := string(Append(nil, "key", "s", "/t/a", 2, time.Unix(1, 0)))
	part := strings.Split(token, ".")
	other := b64.EncodeToString([]byte(`{"alg":"HS256","typ":"JWT"}`))
	for name, c := range map[string]struct {
		token string
		want  bool
	}{
		"minted":          {token, true},
		"other signature": {part[0] + "." + part[1] + ".AAAA", true},
		"other type":      {other + "." + part[1] + "." + part[2], false},
		"no claims":       {part[0] + "." + b64.EncodeToString([]byte(`{}`)) + "." + part[2], false},
		"two parts":       {part[0] + "." + part[1], false},
		"empty":           {"", false},
	} {
		if got := Formed([]byte(c.token)); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

type worker struct{ session, secret string }

func identity(w *worker) (string, string) { return w.session, w.secret }

type clock struct {
	mu sync.Mutex
	t  time.Time
}

func (c *clock) now() time.Time  { c.mu.Lock(); defer c.mu.Unlock(); return c.t }
func (c *clock) set(t time.Time) { c.mu.Lock(); defer c.mu.Unlock(); c.t = t }

func TestMinter(t *testing.T) {
	c := &clock{t: time.Unix(1_800_000_000, 0)}
	m := NewMinter(c.now, identity)
	a, b := &worker{"sa", "ka"}, &worker{"sb", "kb"}
	must := func(w *worker, caller string, depth int) string {
		t.Helper()
		token := string(m.Mint(nil, w, caller, depth))
		got, err := Verify(token, w.secret, only(w.session), c.now())
		if err != nil || got.Issued != c.now().Truncate(time.Second) || got.Caller != caller || got.Depth != depth {
			t.Fatalf("%+v %v", got, err)
		}
		return token
	}
	first := must(a, "", 0)
	must(b, "", 0)
	must(a, "/t/x", 2)
	if must(a, "", 0) != first {
		t.Error("one second, one token")
	}
	c.set(c.now().Add(time.Second))
	if must(a, "", 0) == first {
		t.Error("a token outlived its second")
	}
	c.set(c.now().Add(-5 * time.Second)) // a wall clock may step back
	must(a, "", 0)
	if got := string(m.Mint([]byte("Pinboard-Attestation: "), a, "", 0)); !strings.HasPrefix(got, "Pinboard-Attestation: ey") {
		t.Errorf("Mint appends: %q", got)
	}
}

// The hit path pays a look-up and a copy.
func TestMintAllocatesNothing(t *testing.T) {
	m := NewMinter(func() time.Time { return time.Unix(1_800_000_000, 0) }, identity)
	w, buf := &worker{"s", strings.Repeat("k", 64)}, make([]byte, 0, 512)
	m.Mint(buf, w, "", 0)
	if n := testing.AllocsPerRun(100, func() { m.Mint(buf, w, "", 0) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestMintersRace(t *testing.T) {
	c := &clock{t: time.Unix(1_800_000_000, 0)}
	m := NewMinter(c.now, identity)
	w := &worker{"s", "k"}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 200 {
				before := c.now()
				token := string(m.Mint(nil, w, "", 0))
				got, err := Verify(token, "k", only("s"), before)
				if err != nil || got.Issued.Before(before.Truncate(time.Second)) || got.Issued.After(c.now()) {
					t.Errorf("minted at %v: %+v %v", before, got, err)
					return
				}
			}
		})
	}
	for i := range 50 {
		c.set(time.Unix(1_800_000_000+int64(i), 0))
		time.Sleep(100 * time.Microsecond)
	}
	wg.Wait()
}

func BenchmarkMint(b *testing.B) {
	m := NewMinter(time.Now, identity)
	w, buf := &worker{"s", strings.Repeat("k", 64)}, make([]byte, 0, 512)
	b.ReportAllocs()
	for b.Loop() {
		m.Mint(buf, w, "", 0)
	}
}

func BenchmarkMintCaller(b *testing.B) {
	m := NewMinter(time.Now, identity)
	w, buf := &worker{"s", strings.Repeat("k", 64)}, make([]byte, 0, 512)
	b.ReportAllocs()
	for b.Loop() {
		m.Mint(buf, w, "/threads/t1", 3)
	}
}

// Nothing but the minted bytes verifies, and no bytes make the reader fall over.
func FuzzVerify(f *testing.F) {
	now := time.Unix(1_800_000_000, 0)
	good := string(Append(nil, "k", "s", "/t/a", 1, now))
	f.Add(good)
	f.Add(good + ".")
	f.Add("..")
	f.Fuzz(func(t *testing.T, token string) {
		if _, err := Verify(token, "k", only("s"), now); err == nil && token != good {
			t.Fatalf("forged: %q", token)
		}
		Ours([]byte(token), func(string) (string, bool) { return "other", true })
	})
}
