package master

import "time"

// SetClockBack makes it appear that the clock was set back by d.
func (m *Master) SetClockBack(d time.Duration) {
	for _, f := range *m.feeders.Load() {
		if f.ackedAt.Load() != 0 {
			f.ackedAt.Add(int64(d))
		}
	}
	m.countGood()
}
