package main

import (
	"context"
	"crypto/rand"
	"fmt"
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
	devHides = []string{"redis-url", "redis-url-file", "key-prefix", "buckets", "allow-evicting-redis", "require-safe-store", "cold-start"}
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
		tell(e.stderr, c.greeting(address.String(), made, e.getenv("REDIS_URL")+e.getenv("REDIS_URL_FILE") != ""))
	})
}

// greeting tells whoever typed the command how to go on. A token is shown only
// if it was made here: one that was given is known already. It goes to stderr,
// so that the log on stdout stays a log.
func (c *devCmd) greeting(address string, made, redis bool) string {
	base, token, shown := "http://"+address, "$PINBOARD_TOKEN", "that of PINBOARD_TOKEN"
	switch {
	case made:
		token, shown = c.Token, c.Token+"   (a new one at each start; set PINBOARD_TOKEN to keep one)"
	case c.Token == "":
		token, shown = "<one of PINBOARD_PASSPORT>", "those of PINBOARD_PASSPORT"
	}
	note := ""
	if redis {
		note = "  note     REDIS_URL is set and not used: that is for pinboard serve\n"
	}
	return fmt.Sprintf(`
pinboard dev: one node, everything in this process, gone when it ends. Not for production.

  address  %[1]s
  token    %[3]s

  worker   PinnedWorker(pinboard_url="%[1]s", token=..., advertise_url="http://127.0.0.1:8000")
  workers  curl -H "Authorization: Bearer %[2]s" %[1]s/registry/workers
  an id    curl %[1]s/<namespace>/<any id>/<path>   the first request places it
  stop     Ctrl-C, at once
%[4]s
`, base, token, shown, note)
}
