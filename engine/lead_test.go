package engine

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/internal/require"
)

// writeString commits one string in a transaction of its own.
func writeString(db *DB, key string) error {
	return db.Update("a", [][]byte{[]byte(key)}, func(tx *Tx) error {
		rec := tx.Fresh([]byte(key), cf.TypeString)
		tx.SaveAppend(&rec, []byte("v"))
		return nil
	})
}

// TestLeaderLeadsOnce: while writers keep coming, each leader writes one group and is done when that is written; the
// first of those that wait leads the next one. The result of a group reaches its members and nobody else.
func TestLeaderLeadsOnce(t *testing.T) {
	db := openForJobs(t)
	const rounds, size = 4, 3 // groups, and the transactions of each
	failed := errors.New("the second group fails")
	writes := make(chan chan error) // of each write that has begun: its result
	stop := make(chan struct{})
	defer close(stop) // after a failure the others go on
	hook := func() error {
		result := make(chan error)
		select {
		case writes <- result:
		case <-stop:
			return failed
		}
		select {
		case err := <-result:
			return err
		case <-stop:
			return failed
		}
	}
	db.injected.Store(&hook)
	type done struct {
		round int
		err   error
	}
	ended := make(chan done, rounds*size)
	begin := func(round, n int) {
		for i := range n {
			go func() { ended <- done{round, writeString(db, fmt.Sprintf("k%d-%d", round, i))} }()
		}
	}
	begin(0, 1)
	for round := range rounds {
		result := <-writes
		if round+1 < rounds {
			begin(round+1, size)
			for db.queuedCommits() != size {
				runtime.Gosched()
			}
		}
		want := error(nil)
		if round == 1 {
			want = failed
		}
		result <- want
		members := size
		if round == 0 {
			members = 1
		}
		for range members { // the leader among them, although the next write has begun or is about to
			select {
			case d := <-ended:
				if d.round != round || !errors.Is(d.err, want) {
					t.Errorf("a transaction of group %d ended with %v after group %d, whose result is %v", d.round, d.err, round, want)
				}
			case <-time.After(time.Minute):
				t.Fatal("a leader waits for the writes of others")
			}
		}
	}
	db.injected.Store(nil)
	if n, txs := db.Stats.Commits.Load(), db.Stats.GroupedTx.Load(); n != rounds || txs != 1+(rounds-1)*size {
		t.Errorf("%d writes of %d transactions, want %d of %d", n, txs, rounds, 1+(rounds-1)*size)
	}
	if db.group.leading || db.queuedCommits() != 0 {
		t.Error("somebody still leads")
	}
}

// TestLargeBatchesDoNotHoldUpSmallOnes: small batches that come after large ones are written after one of them, and the
// large ones keep their order.
func TestLargeBatchesDoNotHoldUpSmallOnes(t *testing.T) {
	db := openForJobs(t)
	begun, goOn := make(chan struct{}), make(chan struct{})
	hook := func() error {
		begun <- struct{}{}
		<-goOn
		return nil
	}
	db.injected.Store(&hook)
	ended := make(chan string)
	large := make([]byte, maxGroupBytes+1)
	for i, name := range []string{"first", "large 1", "large 2", "small 1", "large 3", "small 2"} {
		go func() {
			err := db.Update("a", [][]byte{[]byte(name)}, func(tx *Tx) error {
				rec := tx.Fresh([]byte(name), cf.TypeString)
				tx.SaveAppend(&rec, large[:len(large)*strings.Count(name, "large")])
				return nil
			})
			if err != nil {
				t.Error(err)
			}
			ended <- name
		}()
		if i == 0 {
			<-begun
		}
		for db.queuedCommits() != i {
			runtime.Gosched()
		}
	}
	for i, want := range [][]string{{"first"}, {"large 1"}, {"small 1", "small 2"}, {"large 2"}, {"large 3"}} {
		if i > 0 {
			<-begun
		}
		goOn <- struct{}{}
		var got []string
		for range want {
			got = append(got, <-ended)
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("write %d has %q, want %q", i, got, want)
		}
	}
}

func (db *DB) queuedCommits() int {
	db.group.mu.Lock()
	defer db.group.mu.Unlock()
	return len(db.group.queue)
}

// TestGuestsAreBounded: however many jobs wait, a holder runs no more commands for others than one transaction may; the
// next holder runs the next ones.
func TestGuestsAreBounded(t *testing.T) {
	db := openForJobs(t)
	holder := &countJob{tx: db.NewTx()}
	holder.start("a")
	if _, err := holder.tx.AcquireOrCombine(holder); err != nil {
		t.Fatal(err)
	}
	const each, jobs = maxCombinedCommands / 4, 10
	txs := make(chan *Tx, jobs) // in which they ran
	var wg sync.WaitGroup
	for i := range jobs {
		wg.Go(func() {
			job := &countJob{tx: db.NewTx(), commands: each}
			job.start("a")
			ran, err := job.tx.AcquireOrCombine(job)
			if !ran {
				job.RunCombined(job.tx)
				job.tx.RunWaiting(func() bool { return false })
				err = job.tx.Commit()
			}
			if err != nil {
				t.Error(err)
			}
			txs <- job.in
			job.tx.Release()
		})
		for holder.tx.waitingJobs() != i+1 {
			runtime.Gosched()
		}
	}
	holder.RunCombined(holder.tx)
	holder.tx.RunWaiting(func() bool { return false })
	require.NoError(t, holder.tx.Commit())
	holder.tx.Release()
	wg.Wait()
	close(txs)
	ran := map[*Tx]int{}
	for tx := range txs {
		ran[tx]++
	}
	for tx, n := range ran {
		if tx != holder.tx {
			n-- // its own
		}
		if n > maxCombinedCommands/each {
			t.Errorf("a transaction ran %d jobs of %d commands for others, want at most %d", n, each, maxCombinedCommands/each)
		}
	}
	if got := counterAt(t, db, "a"); got != jobs+1 {
		t.Errorf("the counter stands at %d, want %d", got, jobs+1)
	}
}

// waitingJobs returns how many wait for the only lock of the transaction.
func (tx *Tx) waitingJobs() int {
	return tx.db.locks.Waiting(tx.locks.Held()[0].Name())
}
