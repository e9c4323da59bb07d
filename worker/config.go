package worker

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Config says where Pinboard is and how it reaches this process. The first
// three fields are required, everything else has a default.
type Config struct {
	// Pinboard is the base URL of a node, or of the balancer before several.
	Pinboard string
	// Token is the bearer token of a worker.
	Token string
	// Advertise is the base URL under which Pinboard reaches the Handler. It
	// may have a path; the Handler takes it off by itself.
	Advertise string

	// Hostname is the public name this worker serves, in hostname-aware mode.
	Hostname string
	// Env is the world its ids live in; Envs overrides it per namespace.
	Env  string
	Envs map[string]string
	// Takeover says what happens to ids held by another hostname of the env:
	// "wind_down" or "deny".
	Takeover string
	// Epoch orders deployments that want the same hostname and namespace; the
	// highest wins.
	Epoch int64

	// Headroom is how much more this process can carry, in any unit the fleet
	// shares. By default free memory in megabytes.
	Headroom func() float64
	// Beat is the interval of heartbeats, by default 3 s.
	Beat time.Duration
	// Buffer is how long before the end of the lease nothing new is started,
	// by default 5 s; half of it before that end everything begins to close.
	// The lease must exceed Buffer + Beat + a round trip.
	Buffer time.Duration
	// Drain is how long instances may go on when Run is told to end, by
	// default 30 s.
	Drain time.Duration

	// Transport carries calls to Pinboard. By default one without proxy,
	// compression or redirects.
	Transport http.RoundTripper
	// Log gets what happens to the session. By default slog.Default().
	Log *slog.Logger

	namespaces []string // of the classes, sorted; set when Run begins
}

// complete fills defaults and says what is wrong.
func (c *Config) complete() (base *url.URL, err error) {
	if strings.TrimSpace(c.Token) == "" {
		return nil, errors.New("worker: Config.Token is empty")
	}
	if _, err := baseURL("Pinboard", c.Pinboard); err != nil {
		return nil, err
	}
	if base, err = baseURL("Advertise", c.Advertise); err != nil {
		return nil, err
	}
	if c.Hostname == "" && (c.Env != "" || len(c.Envs) > 0 || c.Takeover != "") {
		return nil, errors.New("worker: Config.Env, Envs and Takeover need a Hostname")
	}
	if c.Headroom == nil {
		c.Headroom = freeMemory
	}
	for _, d := range []struct {
		name string
		at   *time.Duration
		or   time.Duration
	}{{"Beat", &c.Beat, 3 * time.Second}, {"Buffer", &c.Buffer, 5 * time.Second}, {"Drain", &c.Drain, 30 * time.Second}} {
		if *d.at == 0 {
			*d.at = d.or
		}
		if *d.at < 0 {
			return nil, fmt.Errorf("worker: Config.%s is negative", d.name)
		}
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	return base, nil
}

func baseURL(name, text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("worker: Config.%s must be an http or https base URL", name)
	}
	return u, nil
}

// A Class says how the instances of one namespace live.
type Class struct {
	// Open starts an instance: it is called once, before the first request,
	// and returns what serves all of them. It may use in.Context, in.Go and
	// in.OnClose. If it fails the request fails and the next one tries again.
	Open func(in *Instance) (http.Handler, error)
	// Idle is how long an instance without requests and background work is
	// kept; by default five minutes.
	Idle time.Duration
	// Max is how many instances of this namespace may live here at once; by
	// default 10,000.
	Max int
}

func (c Class) complete() Class {
	if c.Idle == 0 {
		c.Idle = 5 * time.Minute
	}
	if c.Max == 0 {
		c.Max = 10_000
	}
	return c
}
