package engine

// Job is what a transaction that waits for its lock wants to have done, see package lock on combining.
type Job interface {
	// RunCombined does the work in a transaction in the same namespace that holds the locks that the job's own
	// transaction asked for. The transaction may have written already: what the job replies holds only when that
	// transaction is committed, even if the job itself writes nothing. It must neither commit nor release it.
	// It returns how many commands it has run.
	RunCombined(tx *Tx) (commands int)
}

// AcquireOrCombine takes the locks as Acquire does. When the transaction needs only one, for writing, and another
// transaction holds it, that one may run the job with its own commit: then AcquireOrCombine returns true and the error
// of that commit, and this transaction, which holds no locks, is to be released.
// Without having run it, the error is Acquire's.
func (tx *Tx) AcquireOrCombine(job Job) (ran bool, err error) {
	if !tx.locks.Single() {
		return false, tx.Acquire()
	}
	ran, err = tx.locks.AcquireOrCombine(tx.db.locks, job, tx.ns)
	if !ran && err == nil {
		tx.cacheOK = true
	}
	return ran, err
}

var errNotCommitted = NewError("ERR", "the write was not committed")

// maxCombinedCommands bounds how many commands a transaction runs for others, while its own client waits: a job that
// would begin beyond it is left to the next holder of the lock. Commands that write nothing, or the same record again
// and again, never make a transaction large.
const maxCombinedCommands = 1024

// RunWaiting runs the jobs that wait for the only lock of the transaction, until there are none, or as many as
// one transaction may run, or full says that the transaction is large enough. Call it before Commit.
func (tx *Tx) RunWaiting(full func() bool) {
	if !tx.locks.Combiner() {
		return
	}
	for commands := 0; commands < maxCombinedCommands && tx.locks.Waited(tx.db.locks) && !full(); {
		job := tx.locks.NextJob(tx.db.locks, tx.ns)
		if job == nil {
			return
		}
		tx.combined = errNotCommitted // until it is
		commands += job.(Job).RunCombined(tx)
	}
}
