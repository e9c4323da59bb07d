package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"slices"

	"github.com/alecthomas/kong"
)

// devCmd is serve with defaults for one developer at one machine.
type devCmd struct{ Config }

// devDefaults are the defaults that differ from those of serve, by flag. The
// store is always the node's own, so its settings are not offered.
var (
	devDefaults = map[string]string{
		"host":               "127.0.0.1",
		"redis-url":          "memory:",
		"cold-start":         "off",
		"affinity":           "none", // ids of one developer's machine would all prefer one worker
		"shutdown-notice-ms": "0",
		"shutdown-budget-ms": "0",
	}
	devHides = []string{"redis-url", "key-prefix", "buckets", "allow-evicting-redis", "require-safe-store", "cold-start"}
)

// applyDevDefaults changes the model of `pinboard dev`, so that its manual
// shows what it does.
func applyDevDefaults(app *kong.Application) {
	for _, cmd := range app.Children {
		if cmd.Name != "dev" {
			continue
		}
		for _, f := range cmd.Flags {
			if v, ok := devDefaults[f.Name]; ok {
				f.Default, f.HasDefault = v, true
			}
			f.Hidden = slices.Contains(devHides, f.Name)
		}
	}
}

// Run serves until Ctrl-C.
func (c *devCmd) Run(ctx context.Context, e env) error {
	if !c.memory() {
		return usageError{"pinboard dev keeps its store in this process; for REDIS_URL use pinboard serve"}
	}
	c.dev = true
	made := c.Token == "" && c.Passport == ""
	if made {
		c.Token = rand.Text()
	}
	return c.run(ctx, e, func(address net.Addr) {
		c.greet(e.stderr, address.String(), made)
		if e.getenv("REDIS_URL") != "" {
			fmt.Fprintln(e.stderr, "  note     REDIS_URL is set and not used: that is for pinboard serve")
		}
	})
}

// greet tells whoever typed the command how to go on. A token is shown only if
// it was made here: one that was given is known already. It goes to stderr, so
// that the log on stdout stays a log.
func (c *devCmd) greet(w io.Writer, address string, made bool) {
	base, token := "http://"+address, "$PINBOARD_TOKEN"
	fmt.Fprintf(w, "\npinboard dev: one node, everything in this process, gone when it ends. Not for production.\n\n")
	fmt.Fprintf(w, "  address  %s\n", base)
	switch {
	case made:
		token = c.Token
		fmt.Fprintf(w, "  token    %s   (a new one at each start; set PINBOARD_TOKEN to keep one)\n", token)
	case c.Token == "":
		token = "<one of PINBOARD_PASSPORT>"
		fmt.Fprintf(w, "  token    those of PINBOARD_PASSPORT\n")
	default:
		fmt.Fprintf(w, "  token    that of PINBOARD_TOKEN\n")
	}
	fmt.Fprintf(w, `
  worker   PinnedWorker(pinboard_url="%[1]s", token=..., advertise_url="http://127.0.0.1:8000")
  workers  curl -H "Authorization: Bearer %[2]s" %[1]s/registry/workers
  an id    curl %[1]s/<namespace>/<any id>/<path>   the first request places it
  stop     Ctrl-C, at once

`, base, token)
}
