// Package pace keeps what is sent to a rate.
package pace

import (
	"context"
	"time"
)

// Clock is the time; tests have one of their own.
type Clock interface {
	Now() time.Time
	// Sleep waits, and returns the error of the context when that ends.
	Sleep(ctx context.Context, d time.Duration) error
}

// Real is the clock of the machine.
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

// Pace is the rate of one sender.
type Pace struct {
	Clock Clock
	next  time.Time // when the next may go
}

// Wait waits until n more may go at a rate of so many a second; 0 = there is no limit.
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
