package passport

import (
	"errors"
	"os"
	"strings"
	"sync/atomic"
)

// A Source is the passport in force and where it comes from. Reload replaces
// it while requests are judged; a request sees one passport throughout.
type Source struct {
	token    string
	passport string // the document itself, or "@" and a path
	current  atomic.Pointer[Passport]
}

// Open reads PINBOARD_TOKEN and PINBOARD_PASSPORT as configured.
func Open(token, passport string) (*Source, error) {
	s := &Source{token: token, passport: passport}
	if err := s.Reload(); err != nil {
		return nil, err
	}
	return s, nil
}

// Reload reads the file again, if there is one. On any error the passport in
// force stays, and the error says what is wrong with the new one.
func (s *Source) Reload() error {
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
	p, err := New(s.token, document)
	if err != nil {
		return err
	}
	s.current.Store(p)
	return nil
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
