package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"pinboard/internal/server"
)

// probeTime bounds a probe; a node that takes longer is not well.
const probeTime = 3 * time.Second

// probeCmd asks a node for its health, from a container without a shell.
type probeCmd struct {
	URL  string `name:"url" placeholder:"URL" help:"Address of the node, http://127.0.0.1:8080 by default, or of one of its probes: a path of its own is asked instead of /readyz."`
	Port int    `var:"PORT" default:"8080" help:"Port of a node on this machine, without --url."`
	Host string `var:"PINBOARD_HOST" placeholder:"ADDRESS" help:"Address that the node listens on, without --url; the loopback when absent."`
}

// Run prints one line and answers an error unless the node is ready.
func (c *probeCmd) Run(ctx context.Context, e env) error {
	target, err := c.target()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	health, status, err := ask(ctx, target)
	switch {
	case err != nil:
		return err
	case status != http.StatusOK:
		return fmt.Errorf("not ready: %s (%d)", cmp.Or(string(health.Status), "no health"), status)
	}
	line := cmp.Or(string(health.Status), "ok")
	if health.Status == server.Ready {
		line += fmt.Sprintf(", %d workers", health.Workers)
	}
	_, err = fmt.Fprintln(e.stdout, line)
	return err
}

// target is the URL to ask. What is wrong with it is said without quoting it.
func (c *probeCmd) target() (string, error) {
	if c.URL == "" {
		host := c.Host
		if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
			host = "127.0.0.1"
		}
		return "http://" + net.JoinHostPort(host, strconv.Itoa(c.Port)) + "/readyz", nil
	}
	u, err := url.Parse(c.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		return "", usageError{"--url: want http://host:port or https://host:port"}
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = "/readyz"
	}
	return u.String(), nil
}

// ask reads one probe. No proxy stands between, no redirect is followed.
func ask(ctx context.Context, target string) (h server.Health, status int, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return h, 0, usageError{"--url: want http://host:port or https://host:port"}
	}
	client := &http.Client{
		Transport:     &http.Transport{Proxy: nil, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	res, err := client.Do(req)
	if err != nil {
		return h, 0, errors.New("no answer: " + reason(err))
	}
	defer res.Body.Close()
	// Whatever is no health leaves it zero; the status decides.
	_ = json.NewDecoder(io.LimitReader(res.Body, 1<<16)).Decode(&h)
	return h, res.StatusCode, nil
}

// reason is why nobody answered, without the URL that http.Client puts first.
func reason(err error) string {
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		if wrapped.Timeout() {
			return "not within " + probeTime.String()
		}
		return wrapped.Err.Error()
	}
	return err.Error()
}
