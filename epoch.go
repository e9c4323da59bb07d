package pinboard

import (
	"errors"
	"math"
	"strconv"
)

// An Epoch is the fencing token of one placement: 1 <= epoch < 2^63, strictly
// increasing per bucket for ever (R1). Zero means none.
type Epoch uint64

// MaxEpoch is the largest epoch a worker can store (a signed 64-bit column).
const MaxEpoch Epoch = math.MaxInt64

// ErrEpoch reports a text that is not an epoch.
var ErrEpoch = errors.New("not an epoch: want a decimal from 1 to 2^63-1 without sign, space or leading zero")

// ParseEpoch reads the canonical decimal form; anything else is ErrEpoch.
func ParseEpoch(s string) (Epoch, error) {
	if s == "" || s[0] == '0' {
		return 0, ErrEpoch
	}
	for i := 0; i < len(s); i++ {
		if s[i] < '0' || s[i] > '9' {
			return 0, ErrEpoch
		}
	}
	n, err := strconv.ParseUint(s, 10, 63)
	if err != nil {
		return 0, ErrEpoch
	}
	return Epoch(n), nil
}

// String is the decimal form that travels in Pinboard-Epoch.
func (e Epoch) String() string { return strconv.FormatUint(uint64(e), 10) }
