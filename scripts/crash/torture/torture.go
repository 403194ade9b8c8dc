// Package torture kills a server under load, again and again, and compares the data that the server holds after each
// restart with the writes that the server had acknowledged.
//
// Each of several writers has its own keys and its own members in shared collections. It sends pipelines of writes and
// predicts every reply. After SIGKILL and a restart, the server must hold all acknowledged writes of each writer, and
// at most a prefix of the pipeline that was in flight: no write is lost, applied in part or out of order, and each
// counter agrees with its collection.
package torture

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"sync"
	"time"

	"github.com/basaltdb/basalt/scripts/internal/launch"
	"github.com/basaltdb/basalt/scripts/internal/redisclient"
)

// patience is the max time that a server may take to answer.
const patience = time.Minute

// Options configures Run. Command and Dir are required; zero in any other field means its default.
type Options struct {
	Command launch.Command // starts the server on a port, with its data in Dir
	Dir     string         // the data directory, kept from round to round

	Rounds  int           // number of kills; default 20
	Writers int           // number of writers, each with a connection; default 8
	Depth   int           // max number of commands in a pipeline; default 16
	MinLoad time.Duration // shortest load before a kill; default 50 ms
	MaxLoad time.Duration // longest load before a kill; default 2 s
	Seed    uint64        // of all random choices except those of durations; default 1

	// Killed checks the data directory after each kill, before the restart; default: no check. Its error ends Run.
	Killed func(dir string) error

	Log func(format string, args ...any) // called once a round, for one line; default: no log
}

func (o Options) withDefaults() Options {
	def := func(p *int, v int) {
		if *p == 0 {
			*p = v
		}
	}
	def(&o.Rounds, 20)
	def(&o.Writers, 8)
	def(&o.Depth, 16)
	if o.MinLoad == 0 {
		o.MinLoad = 50 * time.Millisecond
	}
	if o.MaxLoad == 0 {
		o.MaxLoad = 2 * time.Second
	}
	o.MaxLoad = max(o.MaxLoad, o.MinLoad)
	if o.Seed == 0 {
		o.Seed = 1
	}
	if o.Log == nil {
		o.Log = func(string, ...any) {}
	}
	if o.Killed == nil {
		o.Killed = func(string) error { return nil }
	}
	return o
}

// Check returns a function for [Options.Killed] that runs "program check dir". The
// function's error contains the program's output.
func Check(program string) func(dir string) error {
	return func(dir string) error {
		if out, err := exec.Command(program, "check", dir).CombinedOutput(); err != nil {
			return fmt.Errorf("%s check: %w\n%s", program, err, out)
		}
		return nil
	}
}

// Run runs the rounds. It returns the first violation, or the first error that keeps it from continuing. After the last
// round it also stops the server cleanly and checks that the clean stop loses nothing either.
func Run(o Options) error {
	o = o.withDefaults()
	rng := rand.New(rand.NewPCG(o.Seed, 0))
	writers := make([]*writer, o.Writers)
	for i := range writers {
		writers[i] = newWriter(i+1, o.Seed, o.Depth)
	}
	for round := 1; round <= o.Rounds; round++ {
		if err := runRound(o, rng, writers, round); err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
	}
	for _, when := range []string{"after the last kill", "after a clean stop"} {
		server, err := restart(o, writers)
		if err != nil {
			return fmt.Errorf("%s: %w", when, err)
		}
		if err := server.Stop(); err != nil {
			return err
		}
	}
	return nil
}

// restart starts the server and verifies its data. If it returns an error, the server does not run any more.
func restart(o Options, writers []*writer) (*launch.Server, error) {
	server, err := launch.Start(o.Command, o.Dir)
	if err != nil {
		return nil, err
	}
	c, err := redisclient.Dial(server.Addr, patience)
	if err == nil {
		c.SetDeadline(time.Now().Add(patience))
		err = verify(c, writers)
		c.Close()
	}
	if err != nil {
		server.Kill()
		return nil, err
	}
	return server, nil
}

func runRound(o Options, rng *rand.Rand, writers []*writer, round int) error {
	begin := time.Now()
	server, err := restart(o, writers)
	if err != nil {
		return err
	}
	verified := time.Since(begin)

	violations := make(chan error, len(writers))
	acknowledged := make(chan struct{}) // closed when the first write is acknowledged
	first := sync.OnceFunc(func() { close(acknowledged) })
	var wg sync.WaitGroup
	for _, w := range writers {
		wg.Go(func() {
			if err := w.run(server.Addr, first); err != nil {
				violations <- err
			}
		})
	}
	load := o.MinLoad + rand.N(o.MaxLoad-o.MinLoad+1)
	var failed error
	// The load begins with the first acknowledged write: a kill before it shows nothing.
	begun, late := (<-chan struct{})(acknowledged), time.After(patience)
	var end <-chan time.Time
	for over := false; !over; {
		over = true
		select {
		case failed = <-violations:
		case <-server.Done():
			failed = fmt.Errorf("the server ended by itself:\n%s", server.Output())
		case <-begun:
			begun, late, end, over = nil, nil, time.After(load), false
		case <-late:
			failed = errors.New("no write was acknowledged")
		case <-end:
		}
	}
	server.Kill()
	wg.Wait()
	// A writer may have seen a wrong reply just before the kill.
	select {
	case err := <-violations:
		failed = errors.Join(failed, err)
	default:
	}
	if failed != nil {
		return failed
	}

	acked, inFlight := 0, 0
	for _, w := range writers {
		acked += w.acked
		inFlight += len(w.inFlight)
	}
	o.Log("round %2d: verified in %3d ms, %6d writes acknowledged in %4d ms, %3d in flight when killed",
		round, verified.Milliseconds(), acked, load.Milliseconds(), inFlight)

	// After one round in four, another restart is killed at a random moment of the recovery.
	if rng.IntN(4) == 0 {
		server, err := launch.Spawn(o.Command, o.Dir)
		if err != nil {
			return err
		}
		select {
		case <-server.Done():
			// If another process has taken the chosen port meanwhile, there was no recovery.
			if !launch.PortTaken(server.Output()) {
				return fmt.Errorf("the server ended during recovery:\n%s", server.Output())
			}
		case <-time.After(rand.N(100 * time.Millisecond)):
		}
		server.Kill()
	}
	return o.Killed(o.Dir)
}
