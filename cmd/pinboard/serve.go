package main

import (
	"context"

	"pinboard/internal/passport"
)

type serveCmd struct{ Config }

// Run serves until a signal or a fatal fault.
func (c *serveCmd) Run(ctx context.Context, e env) error {
	if err := c.check(); err != nil {
		return err
	}
	_, err := passport.Open(c.Token, c.Passport)
	if err != nil {
		return usageError{err.Error()}
	}
	return nil
}
