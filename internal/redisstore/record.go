package redisstore

import (
	"encoding/binary"
	"encoding/json"
	"math"

	"github.com/cespare/xxhash/v2"

	"pinboard/internal/ownership"
)

// A lease record is the digest of the session's worker record (so that
// comparing the lease compares both, and a node that knows the worker need
// not read it again), 4 bytes of presence, then what is present.
func encodeLease(digest uint64, l *ownership.Lease) string {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, 128), digest)
	b = append(b, 0, 0, 0, 0)
	e := leaseWriter{b: b}
	visitLease(&e, l)
	binary.BigEndian.PutUint32(e.b[8:], e.present)
	return string(e.b)
}

func decodeLease(s string) (digest uint64, l ownership.Lease, err error) {
	d := leaseReader{decoder: decoder{s: s}}
	digest = d.uint64()
	d.present = uint32(d.byte())<<24 | uint32(d.byte())<<16 | uint32(d.byte())<<8 | uint32(d.byte())
	visitLease(&d, &l)
	if d.bad || len(d.s) > 0 || d.present>>d.n != 0 {
		return 0, ownership.Lease{}, errCorrupt
	}
	return digest, l, nil
}

// leaseVisitor reads or writes the fields of a lease in one order.
type leaseVisitor interface {
	text(*string)
	number(*int64)
	flag(*bool)
	float(*float64)
	degrade(*ownership.Degrade)
	phase(*ownership.Phase)
	texts(*[]string)
}

func visitLease(v leaseVisitor, l *ownership.Lease) {
	v.text(&l.Gen)
	v.number(&l.Until)
	v.number(&l.TTL)
	v.number(&l.At)
	v.float(&l.Headroom)
	v.number(&l.HeardAt)
	v.flag(&l.Beaten)
	v.flag(&l.OwnDrain)
	v.flag(&l.Drain)
	v.number(&l.DrainAt)
	v.degrade(&l.Degraded)
	v.number(&l.FailSince)
	v.number(&l.ProvedAt)
	v.text(&l.ReplacedBy)
	v.phase(&l.Phase)
	v.number(&l.Asked)
	v.number(&l.Free)
	v.text(&l.Next)
	v.texts(&l.Behind)
	v.number(&l.Ordered)
	v.flag(&l.Acks)
	v.flag(&l.Aborts)
	v.flag(&l.Ejected)
	v.text(&l.DisplacedBy)
	v.number(&l.DisplacedAt)
}

type leaseWriter struct {
	b       []byte
	n       int
	present uint32
}

func (w *leaseWriter) mark(set bool) bool {
	if set {
		w.present |= 1 << w.n
	}
	w.n++
	return set
}

func (w *leaseWriter) text(p *string) {
	if w.mark(*p != "") {
		w.b = appendText(w.b, *p)
	}
}

func (w *leaseWriter) number(p *int64) {
	if w.mark(*p != 0) {
		w.b = binary.AppendVarint(w.b, *p)
	}
}

func (w *leaseWriter) flag(p *bool) { w.mark(*p) }

func (w *leaseWriter) float(p *float64) {
	if w.mark(*p != 0) {
		w.b = binary.BigEndian.AppendUint64(w.b, math.Float64bits(*p))
	}
}

func (w *leaseWriter) degrade(p *ownership.Degrade) {
	if w.mark(*p != 0) {
		w.b = append(w.b, byte(*p))
	}
}

func (w *leaseWriter) phase(p *ownership.Phase) {
	if w.mark(*p != 0) {
		w.b = append(w.b, byte(*p))
	}
}

func (w *leaseWriter) texts(p *[]string) {
	if !w.mark(len(*p) > 0) {
		return
	}
	w.b = binary.AppendVarint(w.b, int64(len(*p)))
	for _, s := range *p {
		w.b = appendText(w.b, s)
	}
}

type leaseReader struct {
	decoder
	n       int
	present uint32
}

func (r *leaseReader) next() bool {
	r.n++
	return r.present>>(r.n-1)&1 != 0
}

func (r *leaseReader) text(p *string) {
	if r.next() {
		*p = r.decoder.text()
	}
}

func (r *leaseReader) number(p *int64) {
	if r.next() {
		*p = r.varint()
	}
}

func (r *leaseReader) flag(p *bool) { *p = r.next() }

func (r *leaseReader) float(p *float64) {
	if r.next() {
		*p = r.decoder.float()
	}
}

func (r *leaseReader) degrade(p *ownership.Degrade) {
	if r.next() {
		*p = ownership.Degrade(r.byte())
	}
}

func (r *leaseReader) phase(p *ownership.Phase) {
	if r.next() {
		*p = ownership.Phase(r.byte())
	}
}

func (r *leaseReader) texts(p *[]string) {
	if !r.next() {
		return
	}
	for n := r.varint(); n > 0 && !r.bad; n-- {
		*p = append(*p, r.decoder.text())
	}
}

func encodeWorker(w *ownership.Worker) (record string, digest uint64) {
	b, err := json.Marshal(w)
	if err != nil {
		panic(err) // strings, numbers, lists and a map of strings always marshal
	}
	return string(b), xxhash.Sum64(b)
}

func decodeWorker(s string) (*ownership.Worker, error) {
	var w ownership.Worker
	if json.Unmarshal([]byte(s), &w) != nil {
		return nil, errCorrupt
	}
	return &w, nil
}

func encodeMeta(m *ownership.Meta) string {
	b := appendText(make([]byte, 0, 72), m.Gen)
	for _, v := range [...]int64{m.Since, m.Cold, m.Longest} {
		b = binary.AppendVarint(b, v)
	}
	return string(b)
}

func decodeMeta(s string) (m ownership.Meta, err error) {
	if s == "" {
		return m, nil
	}
	d := decoder{s: s}
	m = ownership.Meta{Gen: d.text(), Since: d.varint(), Cold: d.varint(), Longest: d.varint()}
	if d.bad || len(d.s) > 0 {
		return ownership.Meta{}, errCorrupt
	}
	return m, nil
}

// A binding is its epoch, its wait, and what is open about it, then the env in
// force behind its length, which hits compare without decoding, and the other
// env behind that.
const bindingEnvAt = 34

func encodeBinding(b *ownership.Binding) string {
	v := make([]byte, 0, 64)
	for _, n := range [...]int64{b.Epoch, b.Wait, b.By, b.WasEpoch} {
		v = binary.BigEndian.AppendUint64(v, uint64(n))
	}
	env, other := b.InForce(), b.Was
	if env == b.Was {
		other = b.Env
	}
	v = binary.BigEndian.AppendUint16(v, uint16(len(env)))
	return string(append(append(v, env...), other...))
}

func decodeBinding(s string) (ownership.Binding, error) {
	d := decoder{s: s}
	b := ownership.Binding{Epoch: int64(d.uint64()), Wait: int64(d.uint64()), By: int64(d.uint64()), WasEpoch: int64(d.uint64())}
	b.Env = d.take(int(d.byte())<<8 | int(d.byte()))
	if other := d.take(len(d.s)); b.By != 0 && other != "" {
		b.Was, b.Env = b.Env, other
	}
	if d.bad {
		return ownership.Binding{}, errCorrupt
	}
	return b, nil
}

func encodeOrders(o []ownership.Order) string {
	b, err := json.Marshal(o)
	if err != nil {
		panic(err) // as for a worker
	}
	return string(b)
}

func decodeOrders(s string) (o []ownership.Order, err error) {
	if json.Unmarshal([]byte(s), &o) != nil {
		return nil, errCorrupt
	}
	return o, nil
}
