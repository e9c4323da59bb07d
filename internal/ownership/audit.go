package ownership

import "fmt"

// Audit holds what a rule wrote to the invariants of the model: rows name whom
// their kind says, sessions move along legal transitions only, deadlines do not
// fall within a generation. Tests run it behind every rule; stores do not.
func Audit(tx *Tx) error {
	for k, r := range tx.Out.Rows {
		if r == nil {
			continue
		}
		if err := r.check(); err != nil {
			return fmt.Errorf("row %s: %w", k, err)
		}
	}
	for id, s := range tx.Out.Sessions {
		if s == nil {
			continue
		}
		before, known := tx.src.Session(id)
		if err := s.follows(&before, known); err != nil {
			return fmt.Errorf("session %s: %w", id, err)
		}
	}
	return nil
}

func (r *Row) check() error {
	switch named := r.Session != ""; {
	case r.Kind != Placed && r.Kind != Closing && r.Kind != Held:
		return fmt.Errorf("kind %q", r.Kind)
	case named != (r.Kind != Held):
		return fmt.Errorf("kind %c names session %q", r.Kind, r.Session)
	case r.Nonce != Nonce{} && r.Kind != Placed:
		return fmt.Errorf("kind %c is unconfirmed", r.Kind)
	case r.Wind != 0 && r.Kind != Placed:
		return fmt.Errorf("kind %c is wound down", r.Kind)
	}
	return nil
}

func (s *Session) follows(before *Session, known bool) error {
	switch {
	case !known:
	case !legal(before.Phase, s.Phase):
		return fmt.Errorf("phase %d after %d", s.Phase, before.Phase)
	case before.Asked != 0 && s.Asked != before.Asked:
		return fmt.Errorf("asked at %d, then at %d", before.Asked, s.Asked)
	case before.Gen == s.Gen && s.Until < before.Until:
		return fmt.Errorf("the deadline fell by %d us", before.Until-s.Until)
	}
	return s.check()
}
