package wait

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancel(t.Context())
		began := time.Now()
		if !For(ctx, time.Minute) || time.Since(began) != time.Minute {
			t.Errorf("waited %v", time.Since(began))
		}
		began = time.Now()
		time.AfterFunc(time.Second, end)
		if For(ctx, time.Minute) || time.Since(began) != time.Second {
			t.Errorf("waited %v for an end after a second", time.Since(began))
		}
	})
}
