package ownership

import (
	"fmt"
	"slices"
)

// A Worker is the immutable part of one accepted session. Values are shared:
// never modify one. The JSON names are stored bytes: they never change.
type Worker struct {
	Session    string            `json:"session"`    // session id: opaque, also the attestation audience
	Process    string            `json:"process"`    // digest of clientId and secret; all sessions of one process share it
	ClientID   string            `json:"client"`     //
	Secret     string            `json:"secret"`     // keys probes and attestations; never shown
	URL        string            `json:"url"`        // advertise URL without trailing "/"
	Namespaces []string          `json:"namespaces"` //
	Hostname   string            `json:"hostname"`   // "*" outside hostname mode
	Env        string            `json:"env"`        // default env of its namespaces, "*" outside hostname mode
	Envs       map[string]string `json:"envs,omitempty"`
	Takeover   string            `json:"takeover,omitempty"`   // "wind_down" or "deny"
	BindEpoch  int64             `json:"bindEpoch,omitempty"`  // binding epoch, 0 when the worker sent none
	Owner      string            `json:"owner,omitempty"`      // token that registered it: provider id + "/" + key name
	Proven     bool              `json:"proven,omitempty"`     // registered with a challenge that was proved
	PathInURL  bool              `json:"pathInUrl,omitempty"`  // dialect D1-D4.1: the URL already ends in the namespace
	SendSecret bool              `json:"sendSecret,omitempty"` // dialect D1-D4: forwards carry the worker's secret
	Past       bool              `json:"past,omitempty"`       // the process was known before: placeable after its first beat (L5)
	LeaseMs    int64             `json:"leaseMs,omitempty"`    // lease granted at registration, milliseconds
}

// EnvOf is the env that the worker shows under ns.
func (w *Worker) EnvOf(ns string) string {
	if e, ok := w.Envs[ns]; ok {
		return e
	}
	return w.Env
}

// Serves reports that the worker shows env under ns to host.
func (w *Worker) Serves(host, env, ns string) bool {
	return w.Hostname == host && w.EnvOf(ns) == env && slices.Contains(w.Namespaces, ns)
}

// A Degrade is a set of causes; each is cleared only by its own success.
type Degrade uint8

// Causes of a Degrade.
const (
	ProofsMissing  Degrade = 1 << iota // keeps ids and forwards
	ProofsRefused                      // nothing is forwarded
	ConnectsFailed                     // keeps ids and forwards
)

// A Lease is the changing part of a session, one record in every bucket.
type Lease struct {
	Gen         string  // generation that granted it: in another one it does not run (G2)
	Until       Micros  // deadline; a renewal never lowers it (L1)
	TTL         Micros  // length last granted
	At          Micros  // when the session was registered here
	Headroom    float64 // last report
	HeardAt     Micros  // when that report was heard, at the latest: one heard before it is older
	Beaten      bool    // a beat has shown that the register answer was processed (L5)
	OwnDrain    bool    // the worker's own drain
	Drain       bool    // the operator's drain; belongs to the process
	DrainAt     Micros  // operator's drain deadline, 0 none
	Degraded    Degrade // causes set
	FailSince   Micros  // start of an unbroken run of failed proofs, 0 none
	ProvedAt    Micros  // last proof of the URL, 0 never
	ReplacedBy  string  // newer session of another process at the same URL (L7), "" none
	State               // what its process may still do with it
	Ordered     Micros  // last restate order that a client could cause; passes to successors (L9)
	Acks        bool    // the process has sent acks
	Aborts      bool    // the process aborts its instances when told to register again (clients before 0.8.4)
	Ejected     bool    // not renewed any more
	DisplacedBy string  // env that took its last binding (H2), "" none
	DisplacedAt int64   // that binding's epoch
}

// A Session is one accepted registration as a bucket knows it.
type Session struct {
	Worker *Worker // immutable
	Lease
}

// A Phase is where a session stands between registration and its end. Legal
// transitions (docs/design.md draws them; Check holds every commit of the
// tests to them):
//
//	Serving ---> Due ---> Asked ---> Succeeded ---> LetGo
//	   \__________________^              ^
//	    \________________________________/    any but LetGo ---> Ended
type Phase uint8

// Phases, in the only order in which they can follow each other.
const (
	Serving   Phase = iota // beats renew it
	Due                    // beats renew it, and the next one that may is answered by a restate order
	Asked                  // told to restate, or its lapse is final: never renewed again (L3, F3)
	Succeeded              // Next, of the same process, has registered here; not all rows are restated yet
	LetGo                  // Next has restated: rows still naming this session are nobody's, placeable from Free on
	Ended                  // deregistered: its rows are nobody's, placeable from Free on
)

// A State is a session's phase with what belongs to it.
type State struct {
	Phase  Phase
	Asked  Micros   // when a restate order was last given, or the lapse made final; 0 never
	Free   Micros   // LetGo, Ended: its rows are placeable from then on (R5)
	Next   string   // Succeeded, LetGo: the newest session of the process
	Behind []string // before Succeeded: older sessions whose rows this one has not restated yet
}

// due makes the next beat a restate order; false if one is on its way anyway.
func (s *State) due() bool {
	if s.Phase != Serving {
		return false
	}
	s.Phase = Due
	return true
}

// ask ends the session's renewals; false if that is so already.
func (s *State) ask(now Micros) bool {
	if s.Asked != 0 || s.Phase == Ended {
		return false
	}
	if s.Asked = now; s.Phase < Asked {
		s.Phase = Asked
	}
	return true
}

// succeed hands the process over to session next, with everything that is
// still to be restated.
func (s *State) succeed(next string) (behind []string) {
	behind, s.Behind = s.Behind, nil
	if !s.over() {
		s.Phase, s.Next = Succeeded, next
	}
	return behind
}

// letGo frees what session next has not restated.
func (s *State) letGo(next string, free Micros) {
	s.Phase, s.Next, s.Free = LetGo, next, free
}

// end is a deregistration.
func (s *State) end(now Micros) {
	s.Phase, s.Free, s.Next, s.Behind = Ended, now, "", nil
}

// over reports that the session owns nothing any more, whatever the time.
func (s *State) over() bool { return s.Phase >= LetGo }

// legal says what one commit may do to a phase: a session is never seen in an
// earlier one again, and LetGo and Ended are final.
func legal(from, to Phase) bool { return from == to || from < to && from < LetGo }

// check holds a state to what its phase says.
func (s *State) check() error {
	switch newer := s.Phase == Succeeded || s.Phase == LetGo; {
	case newer != (s.Next != ""):
		return fmt.Errorf("phase %d with next %q", s.Phase, s.Next)
	case len(s.Behind) > 0 && s.Phase >= Succeeded:
		return fmt.Errorf("phase %d has sessions behind it", s.Phase)
	case s.over() == (s.Free == 0):
		return fmt.Errorf("phase %d is free from %d", s.Phase, s.Free)
	case s.Phase == Asked && s.Asked == 0:
		return fmt.Errorf("asked at no time")
	}
	return nil
}
