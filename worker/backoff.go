package worker

import "time"

// maxBackoff bounds the wait between two attempts to register.
const maxBackoff = 30 * time.Second

// backoff is the wait before the nth consecutive attempt to register after
// failures: what Retry-After asked for, else the beat interval, doubled with
// each failure; chance (0 to 1) spreads a fleet over 0.3 to 1.0 of it.
func backoff(failures int, interval, retryAfter time.Duration, chance float64) time.Duration {
	base, doublings := interval, failures
	if retryAfter > 0 {
		base, doublings = retryAfter, failures-1
	}
	d := maxBackoff
	if doublings < 16 && base < maxBackoff>>doublings {
		d = base << doublings
	}
	return time.Duration(float64(d) * (0.3 + 0.7*chance))
}
