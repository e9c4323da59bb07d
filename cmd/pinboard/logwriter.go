package main

import (
	"bytes"
	"io"
	"sync"
	"time"
)

const (
	logRoom  = 1 << 20                // bytes of lines that wait for a slow reader
	logStuck = 100 * time.Millisecond // a write that takes longer may take for ever
	logFlush = time.Second            // what the last lines get at the end
)

// A logWriter stands between the parts of a node and whoever reads its log.
// Writers never wait: lines wait here, and those that find no room are dropped
// and counted. One goroutine writes them on; a reader that has stopped reading
// holds up that goroutine and nothing else.
type logWriter struct {
	out  io.Writer
	note func(dropped int) []byte // the line that says how many were dropped

	mu      sync.Mutex
	waiting []byte
	dropped int       // since the last note
	total   int64     // since the start
	writing time.Time // when the write under way began; zero when there is none
	closed  bool

	wake chan struct{} // something waits, or closed
	done chan struct{} // the goroutine has ended
}

func newLogWriter(out io.Writer, note func(dropped int) []byte) *logWriter {
	w := &logWriter{out: out, note: note, wake: make(chan struct{}, 1), done: make(chan struct{})}
	go w.run()
	return w
}

// Write takes one line or drops it.
func (w *logWriter) Write(line []byte) (int, error) {
	w.mu.Lock()
	if len(w.waiting)+len(line) > logRoom {
		w.dropped++
		w.total++
	} else {
		w.waiting = append(w.waiting, line...)
	}
	w.mu.Unlock()
	w.rouse()
	return len(line), nil
}

func (w *logWriter) rouse() {
	select {
	case w.wake <- struct{}{}:
	default: // it will look anyway
	}
}

// lost is the number of lines dropped since the start.
func (w *logWriter) lost() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.total
}

func (w *logWriter) run() {
	defer close(w.done)
	var spare []byte
	for range w.wake {
		for {
			batch, closed := w.take(spare[:0])
			if batch == nil && closed {
				return
			}
			if batch == nil {
				break
			}
			if _, err := w.out.Write(batch); err != nil {
				w.failed(bytes.Count(batch, []byte("\n")))
			}
			spare = batch
		}
	}
}

// take begins a write of all that waits, and of the note when lines were
// dropped before there was room again; nil if there is nothing. next becomes
// the room for what comes, and only then: it is not the caller's any more.
func (w *logWriter) take(next []byte) (batch []byte, closed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writing = time.Time{}
	if len(w.waiting) == 0 && w.dropped == 0 {
		return nil, w.closed
	}
	batch, w.waiting = w.waiting, next
	if w.dropped > 0 {
		batch = append(batch, w.note(w.dropped)...)
		w.dropped = 0
	}
	w.writing = time.Now()
	return batch, w.closed
}

// failed counts lines that could not be written: their reader is gone.
func (w *logWriter) failed(lines int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.total += int64(lines)
}

// close writes what waits and ends the goroutine. It does not wait for a
// reader that has stopped reading.
func (w *logWriter) close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.rouse()
	tick := time.NewTicker(logStuck / 10)
	defer tick.Stop()
	for end := time.Now().Add(logFlush); time.Now().Before(end) && !w.stuck(); {
		select {
		case <-w.done:
			return
		case <-tick.C:
		}
	}
}

func (w *logWriter) stuck() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.writing.IsZero() && time.Since(w.writing) > logStuck
}
