package ownership

import (
	"strconv"
	"time"
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
	orders = append(orders, Order{MsgID: tag(tx.Bucket, msgID), Key: k, Epoch: row.Epoch})
	tx.PutOrders(s.Worker.Process, orders)
	tx.Log(Entry{Cause: WindDownOrdered, Key: k.String(), Session: row.Session, Epoch: row.Epoch, Node: p.Node})
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
// (nil) revokes that; process, if not "", must own it. It reports whether the id
// was placed, there.
func (p *Rules) WindDown(tx *Tx, k Key, deadline *time.Duration, msgID, process string) bool {
	p.Begin(tx, 0)
	row := tx.Row(k)
	if row == nil || row.Kind != Placed {
		return false
	}
	s := tx.Session(row.Session)
	if p.fate(tx, s) != running || process != "" && s.Worker.Process != process {
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
	tx.Log(Entry{Cause: WindDownRevoked, Key: k.String(), Session: row.Session, Epoch: row.Epoch, Node: p.Node})
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
		deadline, open := p.open(tx, s, &o)
		if !open {
			continue
		}
		due := !o.Acked && (s.Acks || o.Delivered < mutedDeliveries) && len(out) < maxMessages
		if due && o.Delivered >= orderDeliveries && (o.Passed > 0 || acked > 0) {
			o.Acked, due = true, false // poison: it must not block the acks behind it
		}
		if due {
			o.Delivered++
			out = append(out, o.message(deadline-tx.Now))
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

// open moves one order on with time; false when its row has ended. The deadline
// is the row's.
func (p *Rules) open(tx *Tx, s *Session, o *Order) (deadline Micros, open bool) {
	if o.Revoke {
		return 0, true
	}
	row := tx.Row(o.Key)
	if row == nil || row.Kind != Placed || row.Wind == 0 {
		return 0, false
	}
	if owner := tx.Session(row.Session); owner == nil || owner.Worker.Process != s.Worker.Process {
		return 0, false
	}
	if tx.Now >= row.Wind && !o.Evict {
		o.Evict, o.Delivered, o.Passed, o.Acked = true, 0, 0, false
		o.MsgID += "!"
	}
	if tx.Now >= row.Wind+orderLeases*tx.Meta.Longest {
		s.due()
	}
	return row.Wind, true
}

// message is the order as the wire has it: the time left at this delivery, 0
// for an eviction, null for a revoke (docs/protocol.md, "heartbeat").
func (o *Order) message(left Micros) Message {
	m := Message{MsgID: o.MsgID, Type: "wind_down", NS: o.Key.Namespace, ID: o.Key.ID}
	if !o.Revoke {
		d := time.Duration(max(left, 0)) * time.Microsecond
		if o.Evict {
			d = 0
		}
		m.Deadline = &d
	}
	return m
}
