package migration

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

// RealClock is the present time.
type RealClock struct{}

// Now implements [Clock].
func (RealClock) Now() time.Time { return time.Now() }

// Sleep implements [Clock].
func (RealClock) Sleep(ctx context.Context, d time.Duration) error {
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

// pace keeps what is sent to a rate.
type pace struct {
	clock Clock
	next  time.Time // when the next may go
}

// wait waits until n more may go at a rate of so many a second; 0 = there is no limit.
func (p *pace) wait(ctx context.Context, n int, rate int64) error {
	if rate <= 0 {
		return nil
	}
	now := p.clock.Now()
	if p.next.Before(now) {
		p.next = now
	}
	wait := p.next.Sub(now)
	p.next = p.next.Add(time.Duration(float64(n) / float64(rate) * float64(time.Second)))
	return p.clock.Sleep(ctx, wait)
}
