package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// A voice prints the story: in colour and with a moving countdown at a
// terminal, as plain lines elsewhere.
type voice struct {
	out      io.Writer
	terminal bool
	act      int
	last     int // whole seconds last shown by a countdown that is not moving
}

func newVoice(out *os.File) *voice {
	info, err := out.Stat()
	return &voice{out: out, terminal: err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("NO_COLOR") == ""}
}

func (v *voice) paint(code, text string) string {
	if !v.terminal {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (v *voice) bold(text string) string { return v.paint("1", text) }
func (v *voice) dim(text string) string  { return v.paint("2", text) }

// worker paints each worker in a colour of its own.
func (v *voice) worker(name string) string {
	if name == "anna" {
		return v.paint("36", name)
	}
	return v.paint("33", name)
}

// title opens an act, with the promise it shows.
func (v *voice) title(text, promise string) {
	v.act++
	v.last = -1
	fmt.Fprintf(v.out, "\n%s\n", v.bold(fmt.Sprintf("%d  %s", v.act, text)))
	v.line("%s", v.dim(promise))
}

func (v *voice) line(format string, args ...any) {
	fmt.Fprintf(v.out, "   "+format+"\n", args...)
}

// countdown shows how much of a wait is left, and why.
func (v *voice) countdown(left, whole time.Duration, why string) {
	left = max(left, 0)
	seconds := int((left + time.Second - 1) / time.Second)
	if !v.terminal {
		if seconds != v.last {
			v.last = seconds
			v.line("%2d s  %s", seconds, why)
		}
		return
	}
	const width = 24
	done := width - int(int64(width)*int64(left)/int64(whole))
	bar := strings.Repeat("█", done) + strings.Repeat("░", width-done)
	fmt.Fprintf(v.out, "\r   %s %2d s  %s\x1b[K", bar, seconds, v.dim(why))
}

// over ends a countdown.
func (v *voice) over() {
	if v.terminal {
		fmt.Fprint(v.out, "\r\x1b[K")
	}
}
