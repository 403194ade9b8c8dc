package engine

import (
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine/lock"
	"github.com/basaltdb/basalt/engine/rocks"
	"github.com/basaltdb/basalt/internal/require"
)

// countJob counts a number up and says what it has seen.
type countJob struct {
	tx   *Tx // of its own
	seen int
	in   *Tx // where it ran
	// commands is what RunIn returns; 0 = 1.
	commands int
}

var counterKey = []byte("counter")

func (j *countJob) RunCombined(tx *Tx) int {
	j.in = tx
	rec, err := tx.Load(counterKey, cf.TypeString)
	if err != nil {
		panic(err)
	}
	j.seen = len(rec.Tail)
	tx.Save(&rec, append(append([]byte(nil), rec.Tail...), 'x'))
	return max(1, j.commands)
}

// start begins a transaction that wants only the counter's lock.
func (j *countJob) start(ns string) {
	j.tx.Begin(ns)
	j.tx.AddLock(counterKey, true)
}

func openForJobs(t *testing.T) *DB {
	db, err := Open(Options{Dir: t.TempDir() + "/db"})
	require.NoError(t, err)
	t.Cleanup(func() { db.Close() })
	return db
}

// A holder runs the jobs of those that wait for its lock, in their order, and its commit is theirs.
func TestHolderRunsWaitingJobs(t *testing.T) {
	failure := errors.New("no space")
	for _, tt := range []struct {
		name   string
		more   bool // the holder has another lock, too
		commit bool
		fail   error
		want   error
	}{
		{"committed", false, true, nil, nil},
		{"several locks", true, true, nil, nil},
		{"commit fails", false, true, failure, failure},
		{"given up", false, false, nil, errNotCommitted},
	} {
		t.Run(tt.name, func(t *testing.T) {
			db := openForJobs(t)
			holder := &countJob{tx: db.NewTx()}
			holder.start("a")
			if ran, err := holder.tx.AcquireOrCombine(holder); ran || err != nil {
				t.Fatalf("AcquireOrCombine = %v, %v with nobody else there", ran, err)
			}
			name := holder.tx.locks.Held()[0].Name()
			if tt.more && !holder.tx.TryLock([]byte("other")) {
				t.Fatal("a free lock cannot be taken")
			}
			const n = 10
			jobs := make([]*countJob, n)
			errs := make([]error, n)
			var wg sync.WaitGroup
			for i := range n {
				jobs[i] = &countJob{tx: db.NewTx()}
				wg.Go(func() {
					jobs[i].start("a")
					ran, err := jobs[i].tx.AcquireOrCombine(jobs[i])
					if !ran {
						t.Errorf("job %d was given the lock", i)
					}
					errs[i] = err
					jobs[i].tx.Release()
				})
				for db.locks.Waiting(name) != i+1 { // in this order
					runtime.Gosched()
				}
			}
			holder.RunCombined(holder.tx)
			holder.tx.RunWaiting(func() bool { return false })
			before := db.Stats.Commits.Load()
			db.InjectWriteError(tt.fail)
			if tt.commit {
				if err := holder.tx.Commit(); !errors.Is(err, tt.fail) {
					t.Errorf("Commit = %v, want %v", err, tt.fail)
				}
			}
			holder.tx.Release()
			wg.Wait()
			db.InjectWriteError(nil)
			if tt.want == nil && db.Stats.Commits.Load()-before != 1 {
				t.Errorf("%d commits, want one for all", db.Stats.Commits.Load()-before)
			}
			for i, j := range jobs {
				if j.in != holder.tx || j.seen != i+1 {
					t.Errorf("job %d: ran in %p (holder %p) and saw %d writes, want %d", i, j.in, holder.tx, j.seen, i+1)
				}
				if !errors.Is(errs[i], tt.want) {
					t.Errorf("job %d: %v, want %v", i, errs[i], tt.want)
				}
			}
			want := n + 1
			if tt.want != nil {
				want = 0
			}
			if got := counterAt(t, db, "a"); got != want {
				t.Errorf("the counter stands at %d, want %d", got, want)
			}
		})
	}
}

func counterAt(t *testing.T, db *DB, ns string) (n int) {
	t.Helper()
	require.NoError(t, db.View(ns, [][]byte{counterKey}, func(tx *Tx) error {
		rec, err := tx.Load(counterKey, cf.TypeString)
		n = len(rec.Tail)
		return err
	}))
	return n
}

// A job runs only in a transaction of its namespace that has room; others get the lock themselves.
func TestJobsThatAreNotRunGetTheLock(t *testing.T) {
	for _, tt := range []struct {
		name, ns string
		full     bool
	}{{"full", "a", true}, {"another namespace", "b", false}} {
		t.Run(tt.name, func(t *testing.T) {
			db := openForJobs(t)
			holder := &countJob{tx: db.NewTx()}
			holder.start("a")
			holder.tx.AcquireOrCombine(holder)
			lock := holder.tx.locks.Held()[0]
			job := &countJob{tx: db.NewTx()}
			done := make(chan struct{})
			go func() {
				defer close(done)
				job.tx.Begin(tt.ns)
				job.tx.locks.Add(lock) // as if its key had this lock
				if ran, err := job.tx.AcquireOrCombine(job); ran || err != nil {
					t.Errorf("AcquireOrCombine = %v, %v, want the lock", ran, err)
				}
				job.RunCombined(job.tx)
				if err := job.tx.Commit(); err != nil {
					t.Error(err)
				}
				job.tx.Release()
			}()
			for db.locks.Waiting(lock.Name()) == 0 {
				runtime.Gosched()
			}
			holder.tx.RunWaiting(func() bool { return tt.full })
			holder.tx.Release()
			<-done
			if got := counterAt(t, db, tt.ns); got != 1 {
				t.Errorf("the counter stands at %d, want 1", got)
			}
		})
	}
}

// Nobody is forgotten in a queue, whoever held the lock: writers of one key, of several, and readers.
func TestNoJobIsForgotten(t *testing.T) {
	db := openForJobs(t)
	const clients, rounds = 16, 300
	other := []byte("other")
	var wg sync.WaitGroup
	for c := range clients {
		wg.Go(func() {
			job := &countJob{tx: db.NewTx()}
			for i := range rounds {
				switch (c + i) % 4 {
				case 0:
					if err := db.Update("a", [][]byte{counterKey, other},
						func(tx *Tx) error { job.RunCombined(tx); return nil }); err != nil {
						t.Error(err)
					}
				case 1:
					counterAt(t, db, "a")
					fallthrough
				default:
					job.start("a")
					ran, err := job.tx.AcquireOrCombine(job)
					if !ran {
						job.RunCombined(job.tx)
						job.tx.RunWaiting(func() bool { return job.tx.Size() > 1<<10 })
						err = job.tx.Commit()
					}
					if err != nil {
						t.Error(err)
					}
					job.tx.Release()
				}
			}
		})
	}
	wg.Wait()
	if got := counterAt(t, db, "a"); got != clients*rounds {
		t.Errorf("the counter stands at %d, want %d", got, clients*rounds)
	}
	for _, key := range [][]byte{counterKey, other} {
		name := db.locks.Name(cf.AppendNSKey(nil, "a", key, db.slots))
		if n := db.locks.Waiting(name); n != 0 || !db.locks.TryLock(lock.Of(name, true)) {
			t.Errorf("the lock of %q is held, or waited for by %d", key, n)
		}
	}
}

// A compaction that judges subkeys has their lock for a moment. Whoever wants to write in that moment is woken,
// although nobody else ever comes.
func TestVerdictWakesWriter(t *testing.T) {
	db := openForJobs(t)
	subkey := cf.AppendSubkeyPrefix(nil, cf.AppendNSKey(nil, "a", counterKey, db.slots), db.slots, 1)
	stop := make(chan struct{})
	var compaction sync.WaitGroup
	compaction.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				db.verdict(rocks.Subkeys, subkey, nil)
			}
		}
	})
	defer compaction.Wait()
	defer close(stop)
	written := make(chan struct{})
	go func() {
		job := &countJob{tx: db.NewTx()}
		for range 20_000 {
			job.start("a")
			if _, err := job.tx.AcquireOrCombine(job); err != nil {
				t.Error(err)
			}
			job.tx.Release()
		}
		close(written)
	}()
	select {
	case <-written:
	case <-time.After(time.Minute):
		panic("a writer waits for a lock that nobody has") // and the database cannot be closed
	}
}

// ReadsDone gives read locks back early, unless more commands of the transaction are to see the same state.
func TestKeepLocks(t *testing.T) {
	db := openForJobs(t)
	for _, keep := range []bool{false, true} {
		tx := db.NewTx()
		tx.Begin("a")
		tx.AddLock(counterKey, false)
		tx.Acquire()
		if keep {
			tx.KeepLocks()
		}
		tx.ReadsDone()
		other := db.NewTx()
		other.Begin("a")
		if free := other.TryLock(counterKey); free == keep {
			t.Errorf("KeepLocks %v: a writer gets the lock: %v", keep, free)
		}
		other.Release()
		tx.Release()
	}
}
