package main

import (
	"io"
	"log/slog"
	"os"
)

// newLogger writes one JSON object per line, or the text form on a terminal.
func (c *Config) newLogger(w io.Writer) *slog.Logger {
	var level slog.Level
	// The flag's enum admits only names that slog knows.
	_ = level.UnmarshalText([]byte(c.LogLevel))
	options := &slog.HandlerOptions{Level: level}
	if c.LogFormat == "text" || c.LogFormat == "auto" && terminal(w) {
		return slog.New(slog.NewTextHandler(w, options))
	}
	return slog.New(slog.NewJSONHandler(w, options))
}

func terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
