package main

import (
	"log/slog"
	"net/http"
	"time"

	"pinboard/internal/ownership"
	"pinboard/internal/seldom"
)

// skewSeen is what tells a wrong clock from a slow answer and from the whole
// seconds of a Date.
const skewSeen = 5 * time.Second

// skews names the clock of a worker as the reason for refused attestations. It
// is a diagnosis for operators: nothing is decided by it.
type skews struct {
	log      *slog.Logger
	now      func() time.Time
	note     func(session string, skew time.Duration) // 0: no longer
	warnings seldom.Warnings
}

// mistrusted is told of a worker that refused an attestation, and of the Date
// of its answer.
func (s *skews) mistrusted(w *ownership.Worker, date string) {
	told, err := http.ParseTime(date)
	if err != nil {
		return
	}
	now := s.now()
	skew := told.Sub(now).Truncate(time.Second)
	if skew.Abs() <= skewSeen {
		s.note(w.Session, 0)
		return
	}
	s.note(w.Session, skew)
	if others, due := s.warnings.Due(w.ClientID, "", now); due {
		s.log.Warn("worker refuses attestations, its clock and this node's differ", "session", w.Session, "client", w.ClientID,
			"url", w.URL, "skewMs", skew.Milliseconds(), "others", others)
	}
}
