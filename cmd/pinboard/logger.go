package main

import (
	"bytes"
	"io"
	"log/slog"
	"os"
)

// newLogger writes one JSON object per line, or the text form on a terminal,
// through a writer that never blocks. Closing that writes the last lines.
func (c *Config) newLogger(out io.Writer) (*slog.Logger, *logWriter) {
	var level slog.Level
	// The flag's enum admits only names that slog knows.
	_ = level.UnmarshalText([]byte(c.LogLevel))
	handler := func(w io.Writer, level slog.Level) slog.Handler {
		options := &slog.HandlerOptions{Level: level}
		if c.LogFormat == "text" || c.LogFormat == "auto" && terminal(out) {
			return slog.NewTextHandler(w, options)
		}
		return slog.NewJSONHandler(w, options)
	}
	w := newLogWriter(out, func(dropped int) []byte {
		var line bytes.Buffer // at any level: it says what an operator cannot see
		slog.New(handler(&line, slog.LevelDebug)).Warn("log lines were dropped, nobody read them in time", "lines", dropped)
		return line.Bytes()
	})
	return slog.New(handler(w, level)), w
}

func terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
