// Package pace limits the rate at which data is sent.
package pace

import (
	"context"
	"time"
)

// Clock is a source of time. Tests have their own.
type Clock interface {
	Now() time.Time
	// Sleep waits for d. It returns early, with the error of the context, when the context ends.
	Sleep(ctx context.Context, d time.Duration) error
}

// Real is the system clock.
type Real struct{}

// Now implements [Clock].
func (Real) Now() time.Time { return time.Now() }

// Sleep implements [Clock].
func (Real) Sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Pace limits the rate of one sender.
type Pace struct {
	Clock Clock
	next  time.Time // when the next unit may be sent
}

// Wait waits until n more units may be sent at a rate in units per second; 0 = no limit.
func (p *Pace) Wait(ctx context.Context, n int, rate int64) error {
	if rate <= 0 {
		return nil
	}
	now := p.Clock.Now()
	if p.next.Before(now) {
		p.next = now
	}
	wait := p.next.Sub(now)
	p.next = p.next.Add(time.Duration(float64(n) / float64(rate) * float64(time.Second)))
	return p.Clock.Sleep(ctx, wait)
}
