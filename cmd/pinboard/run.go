package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/alecthomas/kong"
)

// Exit codes of the command.
const (
	exitOK    = 0
	exitFatal = 1 // the node could not go on
	exitUsage = 2 // bad or missing values: one line on stderr says which
)

// cli is the whole command line; one struct per subcommand.
type cli struct {
	Serve   serveCmd   `cmd:"" help:"Run one node. Every setting is an environment variable and a flag; the flag wins."`
	Dev     devCmd     `cmd:"" help:"Run one node for development: store in the process, a token made at the start, stops at once."`
	Probe   probeCmd   `cmd:"" help:"Ask a node whether it is ready; exit status 0 if it is, 1 if not."`
	Version versionCmd `cmd:"" help:"Print the version and exit."`
}

// env is the world outside the process, passed in so that tests can be it.
type env struct {
	environ []string // NAME=value
	stdout  io.Writer
	stderr  io.Writer
}

// getenv is the last value of a variable, "" if it is not set.
func (e env) getenv(name string) string {
	for i := len(e.environ) - 1; i >= 0; i-- {
		if v, ok := strings.CutPrefix(e.environ[i], name+"="); ok {
			return v
		}
	}
	return ""
}

// usageError is a bad or missing value: one line, exit 2.
type usageError struct{ msg string }

func (e usageError) Error() string { return e.msg }

// run is the command without the process around it.
func run(ctx context.Context, args, environ []string, stdout, stderr io.Writer) int {
	var c cli
	e := env{environ, stdout, stderr}
	helped := false
	parser, err := newParser(&c, e, kong.Exit(func(int) { helped = true }))
	if err != nil {
		fmt.Fprintln(stderr, "pinboard:", err)
		return exitFatal
	}
	cmd, err := parser.Parse(args)
	switch {
	case helped:
		return exitOK
	case err != nil:
		complain(stderr, nameSetting(parser.Model, err))
		return exitUsage
	}
	cmd.BindTo(ctx, (*context.Context)(nil))
	err = cmd.Run(e)
	var usage usageError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &usage):
		complain(stderr, usage.msg)
		return exitUsage
	default:
		complain(stderr, err.Error())
		return exitFatal
	}
}

func newParser(c *cli, e env, more ...kong.Option) (*kong.Kong, error) {
	parser, err := kong.New(c, append(more,
		kong.Name("pinboard"),
		kong.Description("Control plane and front door for durable objects: one live instance per id across a fleet."),
		kong.Writers(e.stdout, e.stderr),
		kong.ConfigureHelp(kong.HelpOptions{WrapUpperBound: 100}),
		kong.ValueFormatter(describe),
		kong.NamedMapper("ms", kong.MapperFunc(decodeMillis)),
		kong.Resolvers(fromEnvironment(e.getenv)),
	)...)
	if err != nil {
		return nil, err
	}
	applyDevDefaults(parser.Model)
	return parser, nil
}

// complain writes the one line of an error.
func complain(stderr io.Writer, msg string) { tell(stderr, "pinboard: "+oneLine(msg)+"\n") }

// tell writes to a person. A pipe that nobody reads holds nothing up.
func tell(w io.Writer, text string) {
	written := make(chan struct{})
	go func() {
		io.WriteString(w, text)
		close(written)
	}()
	select {
	case <-written:
	case <-time.After(logFlush):
	}
}

// userinfo is a URL that may hold a password. Messages of ours quote none; what
// the command line's parser quotes can be one.
var userinfo = regexp.MustCompile(`[^\s"']*://[^\s"']*@[^\s"']*`)

// oneLine keeps a message on one line whatever a value smuggled into it, and
// passwords of URLs out of it.
func oneLine(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, s)
	return userinfo.ReplaceAllString(s, "(a URL)")
}

// nameSetting adds the environment variable to an error that begins with a flag.
func nameSetting(app *kong.Application, err error) string {
	msg := err.Error()
	for _, cmd := range app.Children {
		for _, f := range cmd.Flags {
			rest, ok := strings.CutPrefix(msg, "--"+f.Name)
			if ok && rest != "" && strings.ContainsRune(": =", rune(rest[0])) && f.Tag.Get("var") != "" {
				return f.Tag.Get("var") + " (--" + f.Name + ")" + rest
			}
		}
	}
	return msg
}

type versionCmd struct{}

// Run prints what `go build` recorded of the tree it built.
func (versionCmd) Run(e env) error {
	_, err := fmt.Fprintf(e.stdout, "pinboard %s %s %s/%s\n", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return err
}

// version is the module version, else the commit, else "devel".
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value
		}
	}
	return "devel"
}
