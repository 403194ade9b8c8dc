package session

import "time"

// replyPeak is the largest number of reply bytes sent at once in the present period and in the previous period, as
// CLIENT LIST shows it. Only the connection's goroutine uses it.
type replyPeak struct {
	period            int64 // number of the present period
	current, previous int   // bytes
}

// replyPeriod is a period of replyPeak: the reply-buffer-peak-reset-time of Redis.
const replyPeriod = 5 * time.Second

// note records that n bytes were sent at once. at is the time since a fixed moment, the same in all calls. note reports
// whether the peak has changed.
func (p *replyPeak) note(n int, at time.Duration) bool {
	was := p.get()
	if now := int64(at / replyPeriod); now != p.period {
		if p.previous = 0; now == p.period+1 {
			p.previous = p.current
		}
		p.period, p.current = now, 0
	}
	p.current = max(p.current, n)
	return p.get() != was
}

func (p *replyPeak) get() int { return max(p.current, p.previous) }
