package passport

import (
	"errors"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// A Source is the passport in force and where it comes from. Reload replaces
// it while requests are judged; a request sees one passport throughout.
type Source struct {
	token    string
	passport string // the document itself, or "@" and a path
	now      func() time.Time
	current  atomic.Pointer[Passport]

	mu     sync.Mutex // one Reload at a time
	rings  map[string]*keyring
	report func(provider string, err error)
}

// Open reads PINBOARD_TOKEN and PINBOARD_PASSPORT as configured.
func Open(token, passport string) (*Source, error) { return open(token, passport, time.Now) }

func open(token, passport string, now func() time.Time) (*Source, error) {
	s := &Source{token: token, passport: passport, now: now, rings: map[string]*keyring{}}
	if err := s.Reload(); err != nil {
		return nil, err
	}
	return s, nil
}

// Report names who is told when the keys of an issuer, by the id of its
// provider, cannot be loaded, and with nil when they can be again. The text of
// the error is for the operator. Keys at a URL are loaded at once.
func (s *Source) Report(report func(provider string, err error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.report = report
	s.watch(s.current.Load())
}

// Reload reads the file again, if there is one, and the keys of issuers. On any
// error the passport in force stays, and the error says what is wrong with the
// new one. Keys at a URL need not be there: those loaded before go on.
func (s *Source) Reload() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	document := s.passport
	if path, isFile := strings.CutPrefix(document, "@"); isFile {
		b, err := os.ReadFile(path)
		if err != nil {
			return errors.New("PINBOARD_PASSPORT: " + reason(err))
		}
		if document = string(b); strings.TrimSpace(document) == "" {
			return errors.New("PINBOARD_PASSPORT: the file is empty")
		}
	}
	rings := map[string]*keyring{}
	p, err := newPassport(s.token, document, s.now, func(where string) (*keyring, error) { return s.ring(rings, where) })
	if err != nil {
		return err
	}
	s.rings = rings
	s.current.Store(p)
	if s.report != nil {
		s.watch(p)
	}
	return nil
}

// ring is the keyring of a place, kept from one passport to the next. A file
// must be readable now.
func (s *Source) ring(rings map[string]*keyring, where string) (*keyring, error) {
	k := s.rings[where]
	if k == nil {
		var err error
		if k, err = newKeyring(where, s.now); err != nil {
			return nil, err
		}
	}
	rings[where] = k
	if strings.HasPrefix(where, "@") {
		return k, k.take()
	}
	return k, nil
}

// watch loads the keys at URLs beside the caller; s.mu is held.
func (s *Source) watch(p *Passport) {
	for _, i := range p.issuers {
		report, id := s.report, i.id
		i.keys.tell(func(err error) { report(id, err) })
		if !strings.HasPrefix(i.keys.where, "@") {
			i.keys.reload()
		}
	}
}

func reason(err error) string {
	switch {
	case errors.Is(err, os.ErrNotExist):
		return "no such file"
	case errors.Is(err, os.ErrPermission):
		return "the file must be readable"
	}
	return "cannot read the file"
}

// Authenticate judges an Authorization header against the passport in force.
func (s *Source) Authenticate(authorization []string) (*Principal, bool) {
	return s.current.Load().Authenticate(authorization)
}
