package sim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"pinboard"
	"pinboard/internal/directory"
	"pinboard/internal/ownership"
)

// A script is played by the real client (testdata/client.py) and by the model.
type script struct {
	Close float64 `json:"close"`
	Steps []step  `json:"steps"`
}

type step struct {
	Do      string   `json:"do"`
	For     float64  `json:"for,omitempty"`
	ID      string   `json:"id,omitempty"`
	Epoch   int64    `json:"epoch,omitempty"`
	Aud     string   `json:"aud,omitempty"`
	Hold    float64  `json:"hold,omitempty"`
	Answers []posted `json:"answers,omitempty"`
}

type posted struct {
	Status int            `json:"status"`
	Took   float64        `json:"took"`
	Body   map[string]any `json:"body"`
}

// python is an interpreter that has the client, "" if there is none.
func python() string {
	for _, p := range []string{"../../.cache/venv/bin/python", os.Getenv("PINNED_PYTHON")} {
		if p != "" && exec.Command(p, "-c", "import pinned.sim").Run() == nil {
			return p
		}
	}
	return ""
}

// TestModelAgreesWithTheRealClient plays random scripts of registry answers,
// requests, drains and time on both, and compares what they send, what they
// answer, and what they think of their lease, after every step.
func TestModelAgreesWithTheRealClient(t *testing.T) {
	py := python()
	if py == "" {
		t.Skip("no Python with the pinned client (scripts/venv.sh makes one)")
	}
	r := rand.New(rand.NewPCG(1, 16))
	scripts := make([]script, 100)
	for i := range scripts {
		scripts[i] = randomScript(r)
	}
	in, err := json.Marshal(scripts)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(py, "testdata/client.py")
	cmd.Stdin, cmd.Stderr = bytes.NewReader(in), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var real [][]string
	if err := json.Unmarshal(out, &real); err != nil {
		t.Fatal(err)
	}
	for i, s := range scripts {
		model := playModel(s)
		if d := firstDifference(real[i], model); d != "" {
			b, _ := json.Marshal(s)
			t.Fatalf("script %d: %s\nscript %s\nthe client in all\n  %s\nthe model in all\n  %s", i, d, b, strings.Join(real[i], "\n  "), strings.Join(model, "\n  "))
		}
	}
}

// firstDifference compares what was told in order, and releases, whose batches
// may differ, as a set.
func firstDifference(real, model []string) string {
	split := func(all []string) (told, releases []string) {
		for _, l := range all {
			if strings.Contains(l, " release ") {
				releases = append(releases, l)
			} else {
				told = append(told, l)
			}
		}
		slices.Sort(releases)
		return told, releases
	}
	rt, rr := split(real)
	mt, mr := split(model)
	for _, pair := range [][2][]string{{rt, mt}, {rr, mr}} {
		for i := range max(len(pair[0]), len(pair[1])) {
			if i >= len(pair[0]) || i >= len(pair[1]) || pair[0][i] != pair[1][i] {
				from := max(0, i-4)
				return fmt.Sprintf("the client\n  %s\nthe model\n  %s", strings.Join(pair[0][from:min(i+2, len(pair[0]))], "\n  "),
					strings.Join(pair[1][from:min(i+2, len(pair[1]))], "\n  "))
			}
		}
	}
	return ""
}

// A stage is the model under a script.
type stage struct {
	w       *World
	p       *Proc
	answers []posted
	told    []string
}

func playModel(s script) []string {
	w := NewWorld(Setup{Seed: 1, Still: true, Nodes: 1, Buckets: 1, Lease: 15 * time.Second})
	defer w.Close()
	k := Today
	k.Build, k.Close, k.Idle = 0, seconds(s.Close), time.Hour*1000
	p := w.Spawn("w1", "http://w1", k)
	p.lease.Buffer = 5 * time.Second
	g := &stage{w: w, p: p}
	p.script = g.answer
	done := newReply[bool](w.Loop)
	w.Go(&p.Host, func() {
		for _, st := range s.Steps {
			g.step(st)
		}
		done.say(true)
	})
	for !done.said && w.Step(time.Hour) {
	}
	for w.Step(w.Now) { // what follows at once
	}
	return g.told
}

func seconds(f float64) time.Duration {
	return time.Duration(f*1000+0.5) * time.Millisecond
}

func (g *stage) tell(format string, args ...any) {
	line := fmt.Sprintf("%.3f ", g.w.Now.Seconds()) + fmt.Sprintf(format, args...)
	g.told = append(g.told, strings.TrimRight(line, " "))
}

func truth(b bool) string {
	if b {
		return "True"
	}
	return "False"
}

func orNone(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// answer tells a call and answers it from the script.
func (g *stage) answer(body any) (a answer) {
	switch b := body.(type) {
	case []directory.Release:
		var items []string
		for _, it := range b {
			items = append(items, it.ID+"@"+it.Epoch.String())
		}
		slices.Sort(items)
		for _, it := range items {
			g.tell("release %s in %s", it, b[0].Session)
		}
		return a
	case directory.Registration:
		held := slices.Clone(b.Instances["/t"])
		slices.Sort(held)
		g.tell("register prev=%s draining=%s holds %s", orNone(b.PrevSession), truth(b.Draining), strings.Join(held, " "))
	case ownership.Beat:
		g.tell("beat in %s draining=%s acks %s", b.Session, truth(b.Draining), strings.Join(b.Acks, " "))
	}
	if len(g.answers) == 0 {
		return answer{unset: true}
	}
	p := g.answers[0]
	g.answers = g.answers[1:]
	g.w.Sleep(seconds(p.Took))
	return p.answer()
}

// answer is the body as the registry's client would decode it.
func (p posted) answer() answer {
	switch {
	case p.Status == 0:
		return answer{unset: true}
	case p.Body["superseded"] == true:
		return answer{err: ownership.Superseded{}}
	case p.Body["reregister"] == true:
		return answer{err: directory.Reregister{}}
	case p.Status != 200:
		return answer{err: ownership.Wait{After: time.Second}}
	}
	num := func(m map[string]any, k string) time.Duration { return seconds(m[k].(float64)) }
	g := directory.Grant{ExpiresIn: num(p.Body, "expiresInMs") / 1000}
	g.Session, _ = p.Body["sessionId"].(string)
	g.Draining, _ = p.Body["draining"].(bool)
	if _, ok := p.Body["drainDeadline"]; ok {
		d := num(p.Body, "drainDeadline")
		g.DrainLeft = &d
	}
	list := func(k string) []any { l, _ := p.Body[k].([]any); return l }
	for _, x := range list("duplicates") {
		g.Duplicates = append(g.Duplicates, directory.ID{Namespace: "/t", ID: x.(map[string]any)["id"].(string)})
	}
	for _, x := range list("messages") {
		m := x.(map[string]any)
		msg := ownership.Message{MsgID: m["msgId"].(string), Type: "wind_down", NS: "/t", ID: m["id"].(string)}
		if m["deadline"] != nil {
			d := num(m, "deadline")
			msg.Deadline = &d
		}
		g.Messages = append(g.Messages, msg)
	}
	return answer{grant: g}
}

func (g *stage) step(s step) {
	p := g.p
	switch s.Do {
	case "wait":
		g.w.Sleep(seconds(s.For))
	case "register", "beat":
		g.answers = jsonAnswers(s.Answers)
		if s.Do == "register" && p.session != "" {
			return
		}
		if s.Do == "register" {
			p.register()
		} else if p.session != "" {
			p.Beat()
		}
	case "request":
		text := p.handle(hit{key: p.key("/t", s.ID), epoch: pinboard.Epoch(s.Epoch), aud: s.Aud})
		if in := p.instances[p.key("/t", s.ID)]; text == served && s.Hold > 0 {
			in.busy++
			g.w.Go(&p.Host, func() { g.w.Sleep(seconds(s.Hold)); in.busy--; p.settled(in) })
		}
		g.tell("%s@%d: %s", s.ID, s.Epoch, text)
	case "drain":
		p.draining, p.ownAt = true, g.w.Now+seconds(s.For)
		p.drained()
	case "undrain":
		p.draining, p.ownAt = false, 0
		p.drained()
	}
	var held []string
	for _, in := range p.held() {
		held = append(held, in.key.ID)
	}
	g.tell("healthy=%s expired=%s session=%s holds %s", truth(p.lease.Healthy(g.w.Now)), truth(p.lease.Expired(g.w.Now)), orNone(p.session), strings.Join(held, " "))
}

// jsonAnswers passes the answers through JSON, as the client sees them.
func jsonAnswers(in []posted) (out []posted) {
	b, err := json.Marshal(in)
	if err == nil {
		err = json.Unmarshal(b, &out)
	}
	if err != nil {
		panic(err)
	}
	return out
}

// randomScript draws what a registry and its clients could do to a worker.
func randomScript(r *rand.Rand) script {
	ms := func(lo, hi int) float64 { return float64(lo+r.IntN(hi-lo)) / 1000 }
	id := func() string { return string(rune('a' + r.IntN(3))) }
	session, epoch, msgs, drained := 0, int64(1), 0, false
	accept := func() posted {
		session++
		b := map[string]any{"sessionId": fmt.Sprint("s", session), "expiresInMs": 15000, "draining": drained}
		var dups []any
		for _, x := range []string{"a", "b", "c"} {
			if r.IntN(4) == 0 {
				dups = append(dups, map[string]any{"ns": "/t", "id": x})
			}
		}
		if dups != nil {
			b["duplicates"] = dups
		}
		return posted{200, ms(1, 900), b}
	}
	refuse := func() posted { return posted{[]int{0, 503, 409, 500}[r.IntN(4)], ms(1, 3000), map[string]any{}} }
	s := script{Close: ms(1, 3000)}
	add := func(st step) { s.Steps = append(s.Steps, st) }
	add(step{Do: "register", Answers: []posted{accept()}})
	for range 15 + r.IntN(30) {
		switch k := r.IntN(20); {
		case k < 8:
			epoch += int64(r.IntN(2))
			e := epoch
			if r.IntN(5) == 0 {
				e = max(1, epoch-int64(r.IntN(3)))
			}
			aud := fmt.Sprint("s", max(1, session-r.IntN(8)/7))
			st := step{Do: "request", ID: id(), Epoch: e, Aud: aud}
			if r.IntN(3) == 0 {
				st.Hold = ms(500, 9000)
			}
			add(st)
		case k < 12:
			add(step{Do: "wait", For: ms(1, 1<<(4+r.IntN(11)))})
		case k < 17:
			b := map[string]any{"expiresInMs": 15000, "draining": drained}
			if drained && r.IntN(2) == 0 {
				b["drainDeadline"] = ms(1000, 20000)
			}
			var list []any
			for range r.IntN(3) {
				msgs++
				m := map[string]any{"msgId": fmt.Sprintf("m%03d", msgs), "type": "wind_down", "ns": "/t", "id": id(), "deadline": any(ms(0, 9000))}
				switch r.IntN(4) {
				case 0:
					m["deadline"] = nil
				case 1:
					m["deadline"] = 0.0
				}
				list = append(list, m)
			}
			if list != nil {
				b["messages"] = list
			}
			add(step{Do: "beat", Answers: []posted{{200, ms(1, 900), b}}})
		case k == 17:
			add(step{Do: "beat", Answers: []posted{refuse()}})
		case k == 18:
			next := accept()
			if r.IntN(3) == 0 {
				next = refuse()
			}
			add(step{Do: "beat", Answers: []posted{{409, ms(1, 900), map[string]any{"reregister": true}}, next}})
			add(step{Do: "request", ID: id(), Epoch: epoch, Aud: fmt.Sprint("s", session)})
			add(step{Do: "register", Answers: []posted{accept()}})
		default:
			switch r.IntN(3) {
			case 0:
				drained = !drained
			case 1:
				add(step{Do: "drain", For: ms(2000, 20000)})
			default:
				add(step{Do: "undrain"})
			}
		}
	}
	return s
}
