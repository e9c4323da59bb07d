package storetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"pinboard"
	"pinboard/internal/directory"
	"pinboard/internal/ownership"
)

// A hostTrace drives random deployments of hostname mode and holds every
// answer against a specification of bindings and owners that is told only what
// went over the wire (H1 to H4).
type hostTrace struct {
	t        *testing.T
	rig      Rig
	d        *directory.Directory
	rnd      *rand.Rand
	now      time.Duration
	log      strings.Builder
	bindings map[string]*hostBinding // by hostname
	procs    map[string]*hostProc
	owners   map[hostKey]*hostOwner
	epochs   map[hostKey]pinboard.Epoch
	served   int // answers with an owner, so that a trace cannot pass by refusing everything
}

type hostKey struct{ env, id string }

type hostBinding struct {
	env   string
	epoch int64
	wait  time.Duration // no new ids before

	claim *hostClaim // another env that nobody has lived up to yet, or env itself while unproven
}

// A hostClaim is a registration whose worker has not beaten yet.
type hostClaim struct {
	env   string
	epoch int64
	by    time.Duration
}

// now drops a claim whose time is over.
func (b *hostBinding) now(at time.Duration) {
	if b.claim != nil && at >= b.claim.by && b.claim.env != b.env {
		b.claim = nil
	}
}

// judge is the specification's answer to a registration.
func (b *hostBinding) judge(env string, epoch int64, at time.Duration) (held, wait bool) {
	if b == nil || b.env == env || b.claim != nil && b.claim.env == env {
		return false, false
	}
	if b.claim != nil {
		return false, epoch <= b.claim.epoch && at < b.claim.by
	}
	return epoch <= b.epoch, false
}

// take notes an accepted one.
func (b *hostBinding) take(env string, epoch int64, by time.Duration) {
	switch {
	case b.claim == nil && b.env == env:
		b.epoch = max(b.epoch, epoch)
	case b.claim != nil && b.claim.env == env:
		b.claim.epoch, b.claim.by = max(b.claim.epoch, epoch), by
		if b.env == env {
			b.epoch = b.claim.epoch
		}
	case b.env == env:
		if epoch > b.claim.epoch {
			b.epoch, b.claim = epoch, nil
		}
	default:
		b.claim = &hostClaim{env, epoch, by}
	}
}

type hostProc struct {
	reg     directory.Registration
	session string
	until   time.Duration // its lease as it was told
	holds   map[hostKey]pinboard.Epoch
	over    bool // superseded: it stopped for good
}

// A hostOwner is the process that was last given a key.
type hostOwner struct {
	proc  *hostProc
	epoch pinboard.Epoch
}

func newHostTrace(t *testing.T, r Rig, seed uint64) *hostTrace {
	tr := &hostTrace{t: t, rig: r, d: node(r, seed+1, true), rnd: rand.New(rand.NewPCG(seed, 4)), bindings: map[string]*hostBinding{},
		procs: map[string]*hostProc{}, owners: map[hostKey]*hostOwner{}, epochs: map[hostKey]pinboard.Epoch{}}
	tr.must(tr.d.Touch(bg))
	tr.advance(Lease)
	return tr
}

func (tr *hostTrace) must(err error) {
	tr.t.Helper()
	if err != nil {
		tr.fail("%v", err)
	}
}

func (tr *hostTrace) fail(format string, args ...any) {
	tr.t.Helper()
	tr.t.Fatalf("%s\n--- trace\n%s", fmt.Sprintf(format, args...), tr.log.String())
}

func (tr *hostTrace) note(format string, args ...any) {
	fmt.Fprintf(&tr.log, "%8s  %s\n", tr.now, fmt.Sprintf(format, args...))
}

var (
	traceHosts = []string{"a.test", "b.test", "c.test"}
	traceEnvs  = []string{"red", "blue"}
	traceIDs   = []string{"x", "y", "z"}
)

func (tr *hostTrace) run(steps int) {
	for range steps {
		name := fmt.Sprint("w", tr.rnd.IntN(6))
		p := tr.procs[name]
		switch x := tr.rnd.IntN(100); {
		case x < 18:
			tr.advance([]time.Duration{time.Millisecond, 2143 * time.Millisecond, Lease / 3, Lease / 3, Lease}[tr.rnd.IntN(5)])
		case x < 34 || p == nil || p.session == "":
			tr.register(name)
		case x < 56:
			tr.beat(p)
		case x < 88:
			tr.resolve(traceHosts[tr.rnd.IntN(3)], traceIDs[tr.rnd.IntN(3)])
		case x < 97:
			tr.release(p)
		default:
			tr.deregister(p)
		}
	}
}

func (tr *hostTrace) advance(d time.Duration) {
	tr.note("advance %v", d)
	tr.rig.Advance(d)
	tr.now += d
}

// register starts a deployment, or lets a running process register again.
func (tr *hostTrace) register(name string) {
	p := tr.procs[name]
	if p == nil || p.over || tr.rnd.IntN(4) == 0 {
		reg := process(fmt.Sprint(name, "-", tr.rnd.IntN(1<<30)))
		reg.Worker.Hostname, reg.Worker.Env = traceHosts[tr.rnd.IntN(3)], traceEnvs[tr.rnd.IntN(2)]
		reg.Worker.Takeover = []string{"wind_down", "deny"}[tr.rnd.IntN(2)]
		if b := tr.bindings[reg.Worker.Hostname]; b != nil {
			reg.Worker.BindEpoch = max(0, b.epoch+int64(tr.rnd.IntN(3))-1)
		}
		p = &hostProc{reg: reg, holds: map[hostKey]pinboard.Epoch{}}
		tr.procs[name] = p
	}
	reg := p.reg
	reg.PrevSession = p.session
	for k := range p.holds {
		if reg.Instances == nil {
			reg.Instances = map[string][]string{}
		}
		reg.Instances[ns] = append(reg.Instances[ns], k.id)
	}
	g, err := tr.d.Register(bg, &reg)
	w := &p.reg.Worker
	tr.note("register %s %s=%s@%d holding %v: %v %v", w.ClientID, w.Hostname, w.Env, w.BindEpoch, p.holds, g.Duplicates, err)
	b := tr.bindings[w.Hostname]
	if b != nil {
		b.now(tr.now)
	}
	held, wait := b.judge(w.Env, w.BindEpoch, tr.now)
	past := p.session != "" || len(p.holds) > 0
	if wait != errors.As(err, new(ownership.Wait)) || (held && !past) != errors.As(err, new(ownership.Conflict)) || err != nil && !held && !wait {
		tr.fail("registration at %+v: %v, want held %v, wait %v, past %v", b, err, held, wait, past)
	}
	switch {
	case err != nil:
		return
	case held: // let in; its first beat ends it
	case b == nil:
		tr.bindings[w.Hostname] = &hostBinding{env: w.Env, epoch: w.BindEpoch, claim: &hostClaim{w.Env, w.BindEpoch, tr.now + Lease}}
	default:
		b.take(w.Env, w.BindEpoch, tr.now+Lease)
	}
	p.session, p.until = g.Session, tr.now+g.ExpiresIn
	for _, d := range g.Duplicates { // quit at once; the release says so
		k := hostKey{w.Env, d.ID}
		tr.send(p, k, p.holds[k])
		delete(p.holds, k)
	}
}

func (tr *hostTrace) beat(p *hostProc) {
	g, err := tr.d.Beat(bg, ownership.Beat{Session: p.session, Headroom: 100, Proof: ownership.ProofOK, HasAcks: true})
	tr.note("beat %s: %d messages, %v", p.reg.Worker.ClientID, len(g.Messages), err)
	w := &p.reg.Worker
	b := tr.bindings[w.Hostname]
	b.now(tr.now)
	if err == nil && b.claim != nil && b.claim.env == w.Env { // lived up to
		if b.env != w.Env {
			*b = hostBinding{env: w.Env, epoch: b.claim.epoch, wait: tr.now + Lease}
		}
		b.claim = nil
	}
	forgotten := tr.now >= p.until+10*Lease && errors.As(err, new(directory.Reregister))
	if over := errors.As(err, new(ownership.Superseded)); over != (b.env != w.Env && (b.claim == nil || b.claim.env != w.Env)) && !forgotten {
		tr.fail("superseded %v while %s is %+v", over, w.Hostname, b)
	} else if over {
		tr.stop(p)
		return
	}
	switch {
	case err == nil:
		p.until = max(p.until, tr.now+g.ExpiresIn)
	case !errors.As(err, new(directory.Reregister)):
		tr.fail("beat: %v", err)
	}
	for _, m := range g.Messages { // idle: evicted at once
		if k := (hostKey{w.Env, m.ID}); m.Deadline != nil && tr.rnd.IntN(2) == 0 && p.holds[k] != 0 {
			tr.send(p, k, p.holds[k])
			delete(p.holds, k)
		}
	}
}

// stop ends a superseded process for good: it aborts everything before it
// serves another request.
func (tr *hostTrace) stop(p *hostProc) {
	p.over, p.session, p.until = true, "", tr.now
	clear(p.holds)
}

// live reports whether p may still serve k by its own lease.
func (tr *hostTrace) live(p *hostProc, k hostKey) bool {
	return p.holds[k] != 0 && tr.now < p.until
}

func (tr *hostTrace) resolve(host, id string) {
	p, err := tr.d.Resolve(bg, directory.Request{Host: host, Address: pinboard.Address{Namespace: ns, ID: id}})
	tr.note("resolve %s %s: %v %d %v", host, id, p.Worker, p.Epoch, err)
	b := tr.bindings[host]
	if b == nil {
		if !errors.Is(err, pinboard.UnknownNamespace) {
			tr.fail("no binding: %v", err)
		}
		return
	}
	if err != nil {
		if errors.Is(err, pinboard.UnknownNamespace) || errors.Is(err, pinboard.ColdStart) || errors.Is(err, pinboard.StoreUnavailable) {
			tr.fail("resolve: %v", err)
		}
		return
	}
	tr.served++
	k := hostKey{b.env, id}
	if p.Worker.Hostname != host || p.Worker.Env != b.env {
		tr.fail("served by a worker of %s=%s, the binding is %+v", p.Worker.Hostname, p.Worker.Env, b)
	}
	if p.Fresh && tr.now < b.wait {
		tr.fail("placed %v before the displaced binding may take new ids", b.wait-tr.now)
	}
	if p.Epoch < tr.epochs[k] || p.Fresh && p.Epoch == tr.epochs[k] {
		tr.fail("epoch %d after %d", p.Epoch, tr.epochs[k])
	}
	tr.epochs[k] = p.Epoch
	owner := tr.process(p.Worker.ClientID)
	if last := tr.owners[k]; last != nil && last.proc != owner && tr.live(last.proc, k) {
		tr.fail("%s is given %v at %d while %s holds it at %d for %v more", owner.reg.Worker.ClientID, k, p.Epoch,
			last.proc.reg.Worker.ClientID, last.epoch, last.proc.until-tr.now)
	}
	tr.owners[k] = &hostOwner{owner, p.Epoch}
	if tr.now < owner.until { // else the worker answers "lease expired" and activates nothing
		owner.holds[k] = p.Epoch
	}
}

// process finds who registered under a client id; a replaced entry of procs
// lives on in owners only.
func (tr *hostTrace) process(client string) *hostProc {
	for _, p := range tr.procs {
		if p.reg.Worker.ClientID == client {
			return p
		}
	}
	for _, o := range tr.owners {
		if o.proc.reg.Worker.ClientID == client {
			return o.proc
		}
	}
	return &hostProc{reg: directory.Registration{Worker: ownership.Worker{ClientID: client}}, holds: map[hostKey]pinboard.Epoch{}}
}

func (tr *hostTrace) release(p *hostProc) {
	for _, id := range traceIDs {
		k := hostKey{p.reg.Worker.Env, id}
		if e := p.holds[k]; e != 0 {
			tr.send(p, k, e)
			delete(p.holds, k)
			return
		}
	}
}

func (tr *hostTrace) send(p *hostProc, k hostKey, epoch pinboard.Epoch) {
	n, err := tr.d.Release(bg, "o", []directory.Release{{Session: p.session, Namespace: ns, ID: k.id, Epoch: epoch, HasEpoch: true}})
	tr.note("release %v by %s at %d: %d %v", k, p.reg.Worker.ClientID, epoch, n, err)
	tr.must(err)
}

func (tr *hostTrace) deregister(p *hostProc) {
	tr.note("deregister %s", p.reg.Worker.ClientID)
	for k, e := range p.holds {
		tr.send(p, k, e)
	}
	clear(p.holds)
	tr.must(tr.d.Deregister(bg, "o", p.session))
	p.session, p.until = "", tr.now
	p.over = true // the process exits
}
