package engine

// Job is the work of a transaction that waits for its lock. Package lock describes combining.
type Job interface {
	// RunCombined does the work in another transaction of the same namespace, which holds the locks that the job's own
	// transaction asked for. That transaction may have written already: the job's reply is valid only once that
	// transaction is committed, even if the job itself writes nothing. RunCombined must neither commit nor release the
	// transaction. It returns the number of commands that it has run.
	RunCombined(tx *Tx) (commands int)
}

// AcquireOrCombine takes the locks as Acquire does. When the transaction needs only one lock, for writing, and another
// transaction holds it, the holder may run the job and commit it with its own writes. Then AcquireOrCombine returns
// true and the error of that commit; this transaction holds no locks and must be released. If the job was not run, the
// error is that of Acquire.
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

// maxCombinedCommands bounds how many commands a transaction runs for others, while its own client waits. A job beyond
// the bound is left to the next holder of the lock. The size of the transaction is no bound for commands that write
// nothing, or that write the same record repeatedly.
const maxCombinedCommands = 1024

// RunWaiting runs the jobs that wait for locks which the transaction holds for writing, until none waits, the limit of
// commands is reached, or full reports that the transaction is large enough. Call it before Commit.
func (tx *Tx) RunWaiting(full func() bool) {
	for commands := 0; commands < maxCombinedCommands && !full(); {
		job := tx.locks.NextJob(tx.db.locks, tx.ns)
		if job == nil {
			return
		}
		tx.combined = errNotCommitted // until the commit
		commands += job.(Job).RunCombined(tx)
	}
}
