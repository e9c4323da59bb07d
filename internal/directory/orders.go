package directory

import (
	"strconv"
	"time"

	"pinboard"
)

const (
	mutedDeliveries = 2 // to processes that never sent acks (F4)
	orderDeliveries = 5 // after these a message is dropped once others were acked
	maxMessages     = 256
)

// wind puts a deadline on the row and an order on its way to the owner.
func (p *Rules) wind(tx *Tx, k Key, row *Row, s *Session, deadline Micros, msgID string) {
	row.Wind = deadline
	tx.PutRow(k, *row)
	orders := dropKey(tx.Orders(s.Worker.Process), k)
	orders = append(orders, Order{MsgID: tag(tx.Bucket, msgID), Key: k, Epoch: row.Epoch, Deadline: deadline})
	tx.PutOrders(s.Worker.Process, orders)
	tx.Log(Entry{Cause: "wind-down", Key: k.String(), Session: row.Session, Epoch: row.Epoch, Node: p.Node})
}

// tag makes a message id name its bucket, so that an ack finds it again.
func tag(b int, id string) string { return strconv.Itoa(b) + "." + id }

func dropKey(orders []Order, k Key) []Order {
	kept := orders[:0]
	for _, o := range orders {
		if o.Key != k {
			kept = append(kept, o)
		}
	}
	return kept
}

// WindDown orders one id to end by the deadline, floored once at one lease, or
// (nil) revokes that. It reports whether the id was placed.
func (p *Rules) WindDown(tx *Tx, k Key, deadline *time.Duration, msgID string) bool {
	p.begin(tx, 0)
	row := tx.Row(k)
	if row == nil || row.Kind != Placed {
		return false
	}
	s := tx.Session(row.Session)
	if p.fate(tx, s) != running {
		return false
	}
	if deadline != nil {
		p.wind(tx, k, row, s, tx.Now+max(deadline.Microseconds(), tx.Meta.Longest), msgID)
		return true
	}
	if row.Wind == 0 {
		return true
	}
	row.Wind, row.Claim = 0, ""
	tx.PutRow(k, *row)
	orders := dropKey(tx.Orders(s.Worker.Process), k)
	orders = append(orders, Order{MsgID: tag(tx.Bucket, msgID), Key: k, Epoch: row.Epoch, Revoke: true})
	tx.PutOrders(s.Worker.Process, orders)
	tx.Log(Entry{Cause: "wind-down revoked", Key: k.String(), Session: row.Session, Epoch: row.Epoch, Node: p.Node})
	return true
}

// carryOrders hands the open orders of a process to its new session, whose
// client has forgotten all messages: new ids, counted anew.
func (p *Rules) carryOrders(tx *Tx, w *Worker) {
	orders := tx.Orders(w.Process)
	for i := range orders {
		o := &orders[i]
		o.MsgID, o.Delivered, o.Passed, o.Acked = o.MsgID+"~", 0, 0, false
	}
	if len(orders) > 0 {
		tx.PutOrders(w.Process, orders)
	}
}

// deliver applies the acks of a beat and returns the messages it takes home.
// An acked order stays until its row has ended: at the deadline an eviction
// with a new id goes out, four leases later a restate order is wanted (F4).
func (p *Rules) deliver(tx *Tx, s *Session, b Pulse) []Message {
	orders := tx.Orders(s.Worker.Process)
	if len(orders) == 0 {
		return nil
	}
	acked := p.acknowledge(tx, orders, b.Acks)
	var out []Message
	kept := orders[:0]
	for _, o := range orders {
		if !p.open(tx, s, &o) {
			continue
		}
		due := !o.Acked && (s.Acks || o.Delivered < mutedDeliveries) && len(out) < maxMessages
		if due && o.Delivered >= orderDeliveries && (o.Passed > 0 || acked > 0) {
			o.Acked, due = true, false // poison: it must not block the acks behind it
		}
		if due {
			o.Delivered++
			out = append(out, o.message(tx.Now))
		}
		if o.Revoke && (o.Acked || !s.Acks && o.Delivered >= mutedDeliveries) {
			continue
		}
		kept = append(kept, o)
	}
	tx.PutOrders(s.Worker.Process, kept)
	return out
}

func (p *Rules) acknowledge(tx *Tx, orders []Order, acks []string) (n int) {
	for _, id := range acks {
		for i := range orders {
			if orders[i].MsgID == id && !orders[i].Acked {
				orders[i].Acked = true
				n++
			}
		}
	}
	if n > 0 {
		for i := range orders {
			if !orders[i].Acked && orders[i].Delivered > 0 {
				orders[i].Passed += n
			}
		}
	}
	return n
}

// open moves one order on with time; false when its row has ended.
func (p *Rules) open(tx *Tx, s *Session, o *Order) bool {
	if o.Revoke {
		return true
	}
	row := tx.Row(o.Key)
	if row == nil || row.Kind != Placed || row.Wind == 0 {
		return false
	}
	if owner := tx.Session(row.Session); owner == nil || owner.Worker.Process != s.Worker.Process {
		return false
	}
	if tx.Now >= o.Deadline && !o.Evict {
		o.Evict, o.Delivered, o.Passed, o.Acked = true, 0, 0, false
		o.MsgID += "!"
	}
	if tx.Now >= o.Deadline+orderLeases*tx.Meta.Longest {
		s.Want = true
	}
	return true
}

// message is the order as the wire has it: the time left at this delivery, 0
// for an eviction, null for a revoke (protocol.md section 6).
func (o *Order) message(now Micros) Message {
	m := Message{MsgID: o.MsgID, Type: "wind_down", NS: o.Key.Namespace, ID: o.Key.ID}
	if !o.Revoke {
		d := time.Duration(max(o.Deadline-now, 0)) * time.Microsecond
		if o.Evict {
			d = 0
		}
		m.Deadline = &d
	}
	return m
}

// Collect drops the rows of ks that nobody can own or reclaim any more (R8)
// and asks for restatements of closing rows that outstay four leases (R7).
func (p *Rules) Collect(tx *Tx, ks []Key) (dropped int) {
	p.begin(tx, 0)
	for _, k := range ks {
		row := tx.Row(k)
		if row == nil {
			continue
		}
		if p.spent(tx, row) {
			tx.DropRow(k)
			dropped++
			continue
		}
		if row.Kind == Closing && tx.Now >= row.Made+orderLeases*tx.Meta.Longest {
			if s := tx.Session(row.Session); s != nil && !s.Want && p.fate(tx, s) == running {
				s.Want = true
				tx.PutSession(*s)
			}
		}
	}
	return dropped
}

// spent reports a row that means nothing to anybody any more.
func (p *Rules) spent(tx *Tx, row *Row) bool {
	claim := func(since Micros) bool { return row.Claim != "" && tx.Now < since+tx.Meta.Longest }
	if row.Kind == Held {
		return tx.Now >= row.Until && !claim(row.Until)
	}
	s := tx.Session(row.Session)
	if p.fate(tx, s) != dead {
		return false
	}
	switch {
	case s == nil:
		return true
	case s.Ended != 0, s.Restated:
		return tx.Now >= freeAt(s) && !claim(freeAt(s))
	case s.Gen != tx.Meta.Gen:
		return tx.Now >= tx.Meta.Since+(graceLeases+1)*tx.Meta.Longest
	}
	return tx.Now >= s.Until+graceLeases*tx.Meta.Longest
}

// Forget drops session records that nothing can refer to any more, and their
// index entries, at most n. Rows that still name them count as nobody's.
func (p *Rules) Forget(tx *Tx, n int) (dropped int) {
	p.begin(tx, 0)
	for _, s := range tx.Roster() {
		if dropped == n {
			break
		}
		if p.fate(tx, &s) != dead || !p.forgettable(tx, &s) {
			continue
		}
		w := s.Worker
		tx.DropSession(w.Session)
		for _, name := range []string{byProcess(w.Process), byClient(w.ClientID), byURL(w.URL)} {
			if tx.Index(name) == w.Session {
				tx.PutIndex(name, "")
			}
		}
		if tx.Index(byProcess(w.Process)) == "" && len(tx.Orders(w.Process)) > 0 {
			tx.PutOrders(w.Process, nil)
		}
		dropped++
	}
	return dropped
}

func (p *Rules) forgettable(tx *Tx, s *Session) bool {
	at := max(s.Until, s.Ended, s.Hold)
	if s.Gen != tx.Meta.Gen {
		at = tx.Meta.Since + tx.Meta.Longest
	}
	return tx.Now >= at+graceLeases*tx.Meta.Longest
}

// Caller proves an instance's identity: session, secret and that a session of
// the same process owns the calling id (product.md section 5). equal compares
// secrets in constant time.
func (p *Rules) Caller(tx *Tx, q Query, session, secret string, equal func(a, b string) bool) (string, *pinboard.Refusal) {
	p.begin(tx, 0)
	s := tx.Session(session)
	if s == nil || !equal(s.Worker.Secret, secret) {
		return "", pinboard.InvalidSessionSecret
	}
	recent := s.Restating != 0 && tx.Now < max(s.Until, s.Restating)+tx.Meta.Longest
	if p.fate(tx, s) != running && !recent || s.Super != "" {
		return "", pinboard.InvalidSessionSecret
	}
	env, known := p.env(tx, q.Host, q.NS)
	if !known {
		return "", pinboard.CallerMismatch
	}
	row := tx.Row(Key{Env: env, Namespace: q.NS, ID: q.ID})
	if row == nil || row.Kind != Placed {
		return "", pinboard.CallerMismatch
	}
	owner := tx.Session(row.Session)
	if p.fate(tx, owner) != running || owner.Worker.Process != s.Worker.Process {
		return "", pinboard.CallerMismatch
	}
	return row.Session, nil
}
