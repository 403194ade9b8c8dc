package torture

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/basaltdb/basalt/scripts/internal/redisclient"
)

// writer sends one pipeline after the other on one connection, and records which
// operations the server has acknowledged.
type writer struct {
	gen   generator
	depth int // max number of operations in a pipeline

	expect   *state   // the state after all acknowledged operations
	inFlight []op     // sent, in order, and not acknowledged when the server was killed
	acked    int      // number of operations acknowledged in this round
	recent   []string // the last acknowledged operations, for the report
}

func newWriter(n int, seed uint64, depth int) *writer {
	return &writer{
		gen: generator{
			id:  fmt.Sprintf("w%d:", n),
			rng: rand.New(rand.NewPCG(seed, uint64(n))),
		},
		depth:  depth,
		expect: newState(),
	}
}

// run writes until the connection breaks, and calls acked after each acknowledged write. It returns an error only for
// an error reply, or a reply that disagrees with the acknowledged writes.
func (w *writer) run(addr string, acked func()) error {
	w.inFlight, w.acked, w.recent = nil, 0, nil
	c, err := redisclient.Dial(addr, patience)
	if err != nil {
		return nil // the server was killed before the writer connected
	}
	defer c.Close()
	for {
		w.inFlight = w.inFlight[:0]
		for range 1 + w.gen.rng.IntN(w.depth) {
			w.inFlight = append(w.inFlight, w.gen.next(w.expect))
		}
		for _, o := range w.inFlight {
			if c.Send(o.args...) != nil {
				return nil
			}
		}
		if c.Flush() != nil {
			return nil
		}
		for len(w.inFlight) > 0 {
			o := w.inFlight[0]
			v, err := c.Receive()
			if err != nil {
				return nil
			}
			if refused := v.Err(); refused != nil {
				return w.violation("%s was refused: %s", command(o), refused)
			}
			w.inFlight = w.inFlight[1:]
			want := o.apply(w.expect)
			if got := render(v); want != anyReply && got != want {
				return w.violation("%s replied %s, expected %s", command(o), shorten(got), shorten(want))
			}
			w.acked++
			acked()
			const kept = 10
			w.recent = append(w.recent[max(0, len(w.recent)-kept+1):], command(o))
		}
	}
}

// settle compares got, the writer's data in the server after a restart, with the allowed states: all acknowledged
// operations, and a prefix of the operations in flight, because the operations of one connection take effect in order.
// The state found becomes the expected one.
func (w *writer) settle(got *state) error {
	firstDiff := w.expect.diff(got)
	if firstDiff == "" {
		return nil
	}
	for _, o := range w.inFlight {
		o.apply(w.expect)
		if w.expect.diff(got) == "" {
			return nil
		}
	}
	return w.violation("acknowledged writes are missing or changed, with every prefix of the %d operations in flight:\n%s",
		len(w.inFlight), firstDiff)
}

func (w *writer) violation(format string, args ...any) error {
	var b strings.Builder
	fmt.Fprintf(&b, "writer %s: %s", strings.TrimSuffix(w.gen.id, ":"), fmt.Sprintf(format, args...))
	fmt.Fprintf(&b, "\n  last acknowledged (of %d in this round):", w.acked)
	for _, line := range w.recent {
		b.WriteString("\n    " + line)
	}
	b.WriteString("\n  in flight:")
	for _, o := range w.inFlight {
		b.WriteString("\n    " + command(o))
	}
	return errors.New(b.String())
}

func command(o op) string { return shorten(strings.Join(o.args, " ")) }
