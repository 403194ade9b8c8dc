// Command failover lets three redis-sentinels watch a basalt and two replicas of it, ends the master again and again
// while go-redis's failover client writes, alternately with SIGKILL and SIGSTOP, and checks after each failover that
// no write is lost that WAIT 1 had confirmed, and that all three have the same number of keys. The old master may need
// a full synchronisation only when clients have written to it what its successor does not have: the round reads both
// logs, and says how much that is. Two more rounds, one with each signal, end a master that nobody writes to: after
// these nobody may need one.
//
// On a slow host the sentinels may fail over a second time before all is healthy again. Then there is another
// successor, of which the logs say nothing: all confirmed writes must be there, and the round is repeated. -twice makes
// the sentinels do so in the first attempt of each round.
//
// usage: failover [-rounds N] [-twice] [-log DIR] BASALT
//
// It prints a line for each round. It exits with status 1, and with the last lines of all logs, when something does not
// happen in time or is wrong. redis-sentinel must be in the PATH.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/basaltdb/basalt/scripts/compat/goredis/internal/harness"
)

func main() {
	rounds := flag.Int("rounds", 2, "how often the master ends")
	twice := flag.Bool("twice", false, "fail over a second time in the first attempt of each round")
	logs := flag.String("log", "", "directory in which the files stay")
	flag.Parse()
	if flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	harness.Main("failover", *logs, func(dir string) error { return run(dir, flag.Arg(0), *rounds, *twice) })
}

// attempts is how often a round is tried.
const attempts = 3

// run starts everything and performs the rounds.
func run(dir, basalt string, rounds int, twice bool) error {
	set, err := start(dir, basalt)
	if set != nil {
		defer set.stop()
	}
	if err != nil {
		return err
	}
	if err := set.healthy(set.nodes[0]); err != nil {
		return err
	}
	load := newLoad(set.sentinelAddrs())
	defer load.stop()
	master := set.nodes[0]
	for i := range rounds + 2 {
		signal, name := syscall.SIGKILL, "SIGKILL"
		if i%2 == 1 {
			signal, name = syscall.SIGSTOP, "SIGSTOP"
		}
		rest := i >= rounds
		if rest {
			name += " at rest"
		}
		for try := 1; ; try++ {
			r := &attempt{set: set, load: load, old: master, signal: signal, rest: rest, twice: twice && try == 1}
			line, err := r.run()
			again := errors.Is(err, errSecond) && try < attempts
			if again {
				line, err = r.afterSecond()
			}
			if err != nil {
				return fmt.Errorf("round %d, %s: %w", i+1, name, err)
			}
			fmt.Printf("sentinel: round %d, %s: %s\n", i+1, name, line)
			master = r.next
			if !again {
				break
			}
		}
	}
	return nil
}

// attempt is one attempt of a round.
type attempt struct {
	set    *set
	load   *load
	old    *server // the master that ends
	signal syscall.Signal
	// rest: nobody writes from before the end of the master until it has a successor.
	rest  bool
	twice bool // the sentinels are told to fail over a second time

	next    *server // the successor
	watcher *watcher
}

// run ends the master, and returns what happened in a line. At rest nobody may need a full synchronisation. errSecond:
// the sentinels have failed over a second time.
func (r *attempt) run() (line string, err error) {
	set, load, old := r.set, r.load, r.old
	load.Resume()
	if err := load.Since(load.ConfirmedCount(), 500); err != nil {
		return "", err
	}
	fulls := map[*server]int{}
	for _, n := range set.nodes {
		if fulls[n], err = n.fullSyncs(); err != nil {
			return "", err
		}
	}
	if r.rest {
		load.Pause()
		if err := set.level(old); err != nil {
			return "", err
		}
	}
	shared, err := set.shared()
	if err != nil {
		return "", err
	}
	began := time.Now()
	passed := func() string { return time.Since(began).Round(100 * time.Millisecond).String() }
	if err := old.Signal(r.signal); err != nil {
		return "", err
	}
	sent := load.Number()
	if err := harness.Await("the failover", func() (err error) {
		r.next, err = set.agreed(old)
		return err
	}); err != nil {
		return "", err
	}
	next := r.next
	failedOver := passed()
	if r.rest {
		load.reconnect()
	}
	load.Resume()
	if err := load.Since(load.ConfirmedCount(), 500); err != nil {
		return "", err
	}
	wentOn := passed()
	if r.signal == syscall.SIGKILL {
		err = old.Start()
		fulls[old] = 0
	} else {
		err = old.Signal(syscall.SIGCONT)
	}
	if err != nil {
		return "", err
	}
	third := set.nodes[slices.IndexFunc(set.nodes, func(n *server) bool { return n != old && n != next })]
	if r.watcher, err = watch(old, next, third, shared+1); err != nil {
		return "", err
	}
	if r.twice {
		if err := set.failOver(next); err != nil {
			return "", err
		}
	}
	if err := set.healthy(next); err != nil {
		return "", err
	}
	back := passed()
	own, err := r.watcher.own()
	if err != nil {
		return "", err
	}
	load.Pause()
	confirmed := load.Confirmed()
	size, err := set.same(next, confirmed)
	if err != nil {
		return "", err
	}
	var full []string
	for _, n := range set.nodes {
		now, err := n.fullSyncs()
		if err != nil {
			return "", err
		}
		if now > fulls[n] {
			full = append(full, map[bool]string{true: "the old master", false: "the other replica"}[n == old])
		}
	}
	before, after := count(own, sent)
	switch {
	case r.rest && len(own) > 0:
		return "", fmt.Errorf("the old master has %q of its own, though nobody wrote", own)
	case before+after == 0 && len(full) > 0:
		return "", fmt.Errorf("%s has synchronised in full, but clients wrote nothing that only the old master has: %q",
			full, own)
	case len(full) == 0:
		full = []string{"nobody"}
	}
	return fmt.Sprintf("new master after %s, client went on after %s, all healthy after %s, %d keys, "+
		"%d confirmed and all there, full synchronisation: %s; only the old master had %d writes requested before its end "+
		"and %d requested later", failedOver, wentOn, back, size, len(confirmed), strings.Join(full, ", "), before,
		after), nil
}

// afterSecond waits until all is healthy with the successor of the successor, checks the confirmed writes, and returns
// what happened in a line.
func (r *attempt) afterSecond() (line string, err error) {
	r.watcher.end() // it poses as a server that may be the master now, which the old one would not follow
	if err := harness.Await("a master", func() (err error) {
		r.next, err = r.set.agreed(nil)
		return err
	}); err != nil {
		return "", err
	}
	if err := r.load.Since(r.load.ConfirmedCount(), 500); err != nil {
		return "", err
	}
	if err := r.set.healthy(r.next); err != nil {
		return "", err
	}
	r.load.Pause()
	confirmed := r.load.Confirmed()
	size, err := r.set.same(r.next, confirmed)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("the sentinels have failed over a second time, %d keys, %d confirmed and all there; once more",
		size, len(confirmed)), nil
}

// shared returns a sequence number up to which all servers have the same writes.
func (s *set) shared() (seq uint64, err error) {
	seq = math.MaxUint64
	for _, n := range s.nodes {
		text, err := n.Info("master_repl_offset")
		if err != nil {
			return 0, err
		}
		at, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return 0, err
		}
		seq = min(seq, at)
	}
	return seq, nil
}

// level waits until all servers have the writes of the master.
func (s *set) level(master *server) error {
	return harness.Await("the same offset on all", func() error {
		want, err := master.Info("master_repl_offset")
		if err != nil {
			return err
		}
		for _, n := range s.nodes {
			if got, err := n.Info("master_repl_offset"); err != nil || got != want {
				return fmt.Errorf("%s has %s of %s: %v", n.Name, got, want, err)
			}
		}
		return nil
	})
}

// same waits until all servers have the writes of the new master, and compares them.
func (s *set) same(master *server, confirmed []string) (size int64, err error) {
	ctx := context.Background()
	if err := s.level(master); err != nil {
		return 0, err
	}
	for i, n := range s.nodes {
		for keys := range slices.Chunk(confirmed, 1000) {
			values, err := n.Client.MGet(ctx, keys...).Result()
			if err != nil {
				return 0, err
			}
			for j, v := range values {
				if v != harness.Value(keys[j]) {
					return 0, fmt.Errorf("%s, confirmed by WAIT 1, is %v on %s (the master is %s)", keys[j], v, n.Name, master.Name)
				}
			}
		}
		// DBSIZE returns the count of the last scan.
		if err := n.Client.Do(ctx, "dbsize", "scan").Err(); err != nil {
			return 0, err
		}
		var got int64
		if err := harness.Await("DBSIZE of "+n.Name, func() (err error) {
			if got, err = n.Client.DBSize(ctx).Result(); err == nil && i > 0 && got != size {
				err = fmt.Errorf("%s has %d keys, %s %d", n.Name, got, s.nodes[0].Name, size)
			}
			return err
		}); err != nil {
			return 0, err
		}
		size = got
	}
	return size, nil
}
