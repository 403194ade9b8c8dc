package pace

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/basaltdb/basalt/internal/require"
)

// still is a clock whose time passes only in Sleep.
type still struct{ now time.Time }

func (c *still) Now() time.Time { return c.now }

func (c *still) Sleep(ctx context.Context, d time.Duration) error {
	c.now = c.now.Add(max(d, 0))
	return ctx.Err()
}

// TestWait: the average rate is kept, and unused time is not made up for.
func TestWait(t *testing.T) {
	began := time.Now()
	clock := &still{began}
	p := Pace{Clock: clock}
	for range 11 { // the first one goes at once
		require.NoError(t, p.Wait(t.Context(), 10, 100))
	}
	if got := clock.now.Sub(began); got != time.Second {
		t.Errorf("100 took %v", got)
	}
	clock.now = clock.now.Add(time.Hour)
	later := clock.now
	p.Wait(t.Context(), 100, 100)
	p.Wait(t.Context(), 100, 100)
	if got := clock.now.Sub(later); got != time.Second {
		t.Errorf("after an idle hour: %v", got)
	}
	p.Wait(t.Context(), 1e6, 0)
	if got := clock.now.Sub(later); got != time.Second {
		t.Errorf("without a limit: %v", got)
	}
}

// TestReal: a sleep ends with its context and returns the context's error.
func TestReal(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("why")
	cancel(why)
	if err := (Real{}).Sleep(ctx, time.Hour); err != why {
		t.Error(err)
	}
	if err := (Real{}).Sleep(t.Context(), 0); err != nil {
		t.Error(err)
	}
}
