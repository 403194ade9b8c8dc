package lock

// Many clients that write one key would each wait for the lock, and then for a commit of their own. Instead the holder
// of the lock, the combiner, runs the jobs of the waiters in its own transaction, and one commit carries all of them:
// flat combining (Hendler, Incze, Shavit, Tzafrir: Flat Combining and the Synchronization-Parallelism Tradeoff, 2010).

// Single reports whether exactly one lock is requested, for writing.
func (s *Set) Single() bool {
	if len(s.want) == 0 || len(s.held) > 0 || !s.want[0].Write() {
		return false
	}
	for _, v := range s.want[1:] {
		if v.Name() != s.want[0].Name() {
			return false
		}
	}
	return true
}

// AcquireOrCombine takes the lock of a set whose Single is true. While the set waits, the holder of the lock may take
// over the job, if the holder has the same scope. Then combined is true, err is the result of the combiner's
// transaction, and the set holds nothing. Otherwise err is that of Acquire.
func (s *Set) AcquireOrCombine(t *Table, job any, scope string) (combined bool, err error) {
	v, w := s.want[0], &s.self
	s.want = s.want[:0]
	w.job, w.scope, w.done = job, scope, false
	t.lock(v, w, false)
	w.job = nil
	if w.done {
		return true, w.err
	}
	s.held = append(s.held, v)
	return false, s.admitted(t)
}

// NextJob takes over a job of the scope that waits for a lock which the set holds for writing; nil = no such job. The
// waiter continues after Combined.
func (s *Set) NextJob(t *Table, scope string) (job any) {
	if s.failure != nil {
		return nil // the locks themselves are free
	}
	for _, v := range s.held {
		b := t.bucket(v)
		if !v.Write() || b.waiting.Load() == 0 {
			continue
		}
		b.mu.Lock()
		w := b.dequeue(b.find(v), func(w *waiter) bool { return w.job != nil && w.scope == scope })
		b.mu.Unlock()
		if w != nil {
			s.combined = append(s.combined, w)
			return w.job
		}
	}
	return nil
}

// Combined reports the result to the waiters whose jobs were taken over.
func (s *Set) Combined(err error) {
	for i, w := range s.combined {
		w.done, w.err = true, err
		w.told <- struct{}{}
		s.combined[i] = nil
	}
	s.combined = s.combined[:0]
}
