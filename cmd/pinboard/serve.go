package main

import "context"

type serveCmd struct{ Config }

// Run serves until a signal or a fatal fault.
func (c *serveCmd) Run(ctx context.Context, e env) error {
	if err := c.check(); err != nil {
		return err
	}
	return nil
}
