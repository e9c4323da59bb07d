package registry

import (
	"errors"
	"time"

	"pinboard"
	"pinboard/api"
	"pinboard/internal/directory"
	"pinboard/internal/ownership"
)

// denied is a known token outside what it may do: 403 with the reason.
type denied string

func (d denied) Error() string { return string(d) }

// missing is an order for a worker that nobody knows: 404 with the reason.
type missing string

func (m missing) Error() string { return string(m) }

// A verdict is how an error goes over the wire.
type verdict struct {
	refusal    *pinboard.Refusal
	body       api.Error // what differs from the refusal's own words
	after      time.Duration
	unexpected bool // nothing that a directory may answer: the store is away
}

// verdictOf is the one table from errors to answers.
func verdictOf(err error) verdict {
	var (
		refusal    *pinboard.Refusal
		field      *api.FieldError
		invalid    directory.Invalid
		reregister directory.Reregister
		superseded ownership.Superseded
		gone       directory.Gone
		wait       ownership.Wait
		conflict   ownership.Conflict
		no         denied
		nobody     missing
	)
	said := func(r *pinboard.Refusal, text string) verdict {
		return verdict{refusal: r, body: api.Error{Error: text}}
	}
	switch {
	case errors.As(err, &refusal):
		return verdict{refusal: refusal}
	case errors.As(err, &field):
		return said(pinboard.InvalidField, field.Error())
	case errors.As(err, &invalid):
		return said(pinboard.InvalidField, invalid.Error())
	case errors.As(err, &no):
		return said(pinboard.Forbidden, no.Error())
	case errors.As(err, &nobody):
		return said(pinboard.NotFound, nobody.Error())
	case errors.As(err, &conflict):
		return said(pinboard.Conflict, conflict.Error())
	case errors.As(err, &gone):
		return said(pinboard.SessionEnded, gone.Error())
	case errors.As(err, &reregister):
		v := said(pinboard.Reregister, reregister.Error())
		v.body.Reregister = true
		return v
	case errors.As(err, &superseded):
		v := said(pinboard.Superseded, "superseded by a newer deployment")
		v.body.Superseded, v.body.Env, v.body.Epoch = true, superseded.Env, superseded.Epoch
		return v
	case errors.As(err, &wait):
		v := said(pinboard.NotReady, wait.Error())
		v.after = wait.After
		return v
	}
	return verdict{refusal: pinboard.StoreUnavailable, unexpected: true}
}
