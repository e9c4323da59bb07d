package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"strconv"
	"syscall"

	"github.com/KimMachineGun/automemlimit/memlimit"

	"pinboard/internal/passport"
	"pinboard/internal/redisstore"
	"pinboard/internal/server"
)

type serveCmd struct{ Config }

// Run serves until a signal or a fatal fault.
func (c *serveCmd) Run(ctx context.Context, e env) error {
	return c.run(ctx, e, func(net.Addr) {})
}

// run checks the settings and serves; listening is told of the open port. Until
// the settings have proved good nothing is logged.
func (c *Config) run(ctx context.Context, e env, listening func(net.Addr)) error {
	if err := c.check(); err != nil {
		return err
	}
	tokens, err := passport.Open(c.Token, c.passport(e.getenv(credentials)))
	if err != nil {
		return usageError{err.Error()}
	}
	signal.Ignore(syscall.SIGPIPE) // a log collector that died must not take the node with it
	listener, err := c.listen()
	var usage usageError
	if errors.As(err, &usage) {
		return err
	}
	log, lines := c.newLogger(e.stdout)
	defer lines.close()
	log.Info("pinboard", "version", version(), "storeFormat", redisstore.Format)
	for _, name := range strays(e.environ) {
		log.Warn("unknown setting is ignored", "variable", name)
	}
	if err == nil {
		listening(listener.Addr())
		err = c.serve(ctx, tokens, log, lines.lost, listener)
	}
	if err != nil && !errors.As(err, &usage) && !errors.Is(err, server.ErrSecondSignal) {
		log.Error("fatal", "error", err.Error())
	}
	return err
}

func (c *Config) serve(ctx context.Context, tokens *passport.Source, log *slog.Logger, lostLines func() int64, listener net.Listener) error {
	c.warn(log)
	limitMemory(memlimit.FromCgroup, log)
	tokens.Report(func(provider string, err error) {
		if err != nil {
			log.Warn("the keys of an issuer cannot be loaded, those loaded before go on", "provider", provider, "error", err.Error())
			return
		}
		log.Info("the keys of an issuer are loaded again", "provider", provider)
	})
	n, err := newNode(c, tokens, log, lostLines, listener)
	if err != nil {
		listener.Close()
		return err
	}
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, os.Interrupt)
	defer signal.Stop(signals)
	defer c.reloadOnHangup(tokens, log)()
	err = n.server.Run(ctx, signals)
	if !errors.Is(err, server.ErrSecondSignal) { // then nothing is waited for
		n.close()
	}
	return err
}

// listen opens the port. An address that is none of this machine's is a bad
// value; a port in use is not.
func (c *Config) listen() (net.Listener, error) {
	listener, err := net.Listen("tcp", net.JoinHostPort(c.Host, strconv.Itoa(c.Port)))
	var unknown *net.DNSError
	switch {
	case err == nil:
		return listener, nil
	case errors.As(err, &unknown), errors.Is(err, syscall.EADDRNOTAVAIL):
		return nil, usageError{"PINBOARD_HOST: not an address of this machine: " + c.Host}
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("cannot listen: PORT %d is in use", c.Port)
	}
	return nil, fmt.Errorf("cannot listen: %w", err)
}

// warn says at the start what an operator must not find out later.
func (c *Config) warn(log *slog.Logger) {
	switch {
	case c.dev:
		log.Warn("pinboard dev: this node stands alone, forgets its placements when it ends and has no cold start; for development only")
	case c.memory():
		log.Warn("REDIS_URL=memory: this node stands alone and forgets its placements when it ends; not for production")
	}
	if c.ColdStart == "off" && !c.dev {
		log.Error("PINBOARD_COLD_START=off: AFTER A RESTART AN ID MAY HAVE TWO LIVE OWNERS until the old leases have ended; for development only")
	}
	if c.DurabilityURL != "" {
		log.Warn("PINBOARD_DURABILITY_POSTGRES_URL is not used by this version: no instance is woken for unfinished work")
	}
	if c.LeaseTTL < realLease {
		log.Warn("PINBOARD_LEASE_TTL_MS is below what workers with default settings need: they will refuse new ids", "needMs", realLease.Milliseconds())
	}
}

// reloadOnHangup reads the passport file again at each SIGHUP; a bad file
// leaves the old passport in force. The answer ends it.
func (c *Config) reloadOnHangup(tokens *passport.Source, log *slog.Logger) (stop func()) {
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	go func() {
		for range hangups {
			if err := tokens.Reload(); err != nil {
				log.Error("passport not reloaded, the old one stays in force", "error", err.Error())
			} else {
				log.Info("passport reloaded")
			}
		}
	}()
	return func() {
		signal.Stop(hangups)
		close(hangups)
	}
}
