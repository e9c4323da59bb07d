package ownership

// Collect drops the rows of ks that nobody can own or reclaim any more (R8)
// and asks for restatements of closing rows that outstay four leases (R7).
func (p *Rules) Collect(tx *Tx, ks []Key) (dropped int) {
	p.Begin(tx, 0)
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
	}
	return dropped
}

// spent reports a row that means nothing to anybody any more. Looking at a
// closing row also asks for what is overdue (closing).
func (p *Rules) spent(tx *Tx, row *Row) bool {
	s, state, free := p.holder(tx, row)
	switch {
	case state != dead, tx.Now < free:
		return false
	case row.Claim != "" && tx.Now < free+tx.Meta.Longest:
		return false
	case row.Kind != Placed, s == nil, s.over():
		return true
	case s.Gen != tx.Meta.Gen:
		return tx.Now >= tx.Meta.Since+(graceLeases+1)*tx.Meta.Longest
	}
	return tx.Now >= s.Until+graceLeases*tx.Meta.Longest
}

// Forget drops session records that nothing can refer to any more, and their
// index entries, at most n; a namespace goes with the last session that served
// it. Rows that still name them count as nobody's.
func (p *Rules) Forget(tx *Tx, n int) (dropped int) {
	p.Begin(tx, 0)
	roster := tx.Roster()
	serving := map[string]int{} // sessions by namespace
	for i := range roster {
		for _, ns := range roster[i].Worker.Namespaces {
			serving[ns]++
		}
	}
	for _, s := range roster {
		if dropped == n {
			break
		}
		if p.fate(tx, &s) != dead || !p.forgettable(tx, &s) {
			continue
		}
		w := s.Worker
		tx.DropSession(w.Session)
		for _, name := range []string{ByProcess(w.Process), ByClient(w.ClientID), ByOwnedClient(w.Owner, w.ClientID), ByURL(w.URL)} {
			if tx.Index(name) == w.Session {
				tx.PutIndex(name, "")
			}
		}
		if tx.Index(ByProcess(w.Process)) == "" && len(tx.Orders(w.Process)) > 0 {
			tx.PutOrders(w.Process, nil)
		}
		for _, ns := range w.Namespaces {
			if serving[ns]--; serving[ns] == 0 {
				tx.PutIndex("n:"+ns, "")
			}
		}
		dropped++
	}
	return dropped
}

func (p *Rules) forgettable(tx *Tx, s *Session) bool {
	at := max(s.Until, s.Free)
	if s.Gen != tx.Meta.Gen {
		at = tx.Meta.Since + tx.Meta.Longest
	}
	return tx.Now >= at+graceLeases*tx.Meta.Longest
}
