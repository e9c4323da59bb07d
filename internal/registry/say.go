package registry

import (
	"sync"

	"pinboard/internal/passport"
)

// say writes the one line of what a token did.
func (s *Server) say(p *passport.Principal, what string, about ...any) {
	s.Log.Info(what, append([]any{"token", p.Owner}, about...)...)
}

// took writes the line of an operator's order; done is false when it found
// nobody to tell.
func (s *Server) took(p *passport.Principal, order string, done bool, about ...any) {
	s.say(p, "order taken", append([]any{"order", order, "done", done}, about...)...)
}

// drains remembers which sessions have said that they drain, so that the first
// beat that says so makes a line and the others do not.
type drains struct {
	mu       sync.Mutex
	sessions map[string]bool
}

// maxDrains bounds it: sessions that end without a word stay in it. Beyond it
// all are forgotten, which costs a line each.
const maxDrains = 4096

// turned reports that a session drains since this beat.
func (d *drains) turned(session string, draining bool) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	was := d.sessions[session]
	switch {
	case !draining:
		delete(d.sessions, session)
	case !was:
		if d.sessions == nil || len(d.sessions) >= maxDrains {
			d.sessions = map[string]bool{}
		}
		d.sessions[session] = true
	}
	return draining && !was
}
