package ownership

import "strings"

// State names what the session is now.
func (s *Session) State(gen string, now Micros) string {
	switch {
	case s.Ended != 0:
		return "ended"
	case s.Restated || s.Successor != "":
		return "succeeded"
	case s.Super != "":
		return "superseded"
	case s.Gen != gen || now >= s.Until:
		return "lapsed"
	case s.Ejected:
		return "ejected"
	case s.Replaced != "":
		return "replaced"
	case s.Restating != 0:
		return "restating"
	}
	return "live"
}

// String lists the causes, "" for none.
func (g Degrade) String() string {
	var out []string
	for i, name := range []string{"proof_missing", "proof_refused", "connects_failed"} {
		if g&(1<<i) != 0 {
			out = append(out, name)
		}
	}
	return strings.Join(out, ",")
}
