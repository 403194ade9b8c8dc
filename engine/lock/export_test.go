package lock

// Idle reports whether no lock is held and no transaction waits.
func (t *Table) Idle() bool {
	for i := range t.buckets {
		b := &t.buckets[i]
		b.mu.Lock()
		idle := b.empty() && b.waiting.Load() == 0 && b.state == open
		b.mu.Unlock()
		if !idle {
			return false
		}
	}
	return true
}
