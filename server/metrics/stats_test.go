package metrics

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/server/command"
)

func TestStats(t *testing.T) {
	s := NewStats()
	get, set := command.Lookup([]byte("get")), command.Lookup([]byte("set"))
	s.Commands.Add(3)
	s.Call(get.ID, 3, int64(6*time.Millisecond))
	s.Measure(get.ID, 2*time.Millisecond, 3)
	s.Failed(get, engine.NewError("WRONGTYPE", "text"))
	s.Rejected(set, errors.New("text"))
	s.Rejected(nil, engine.NewError("", "CODE of a script"))
	s.CallFailed(set)
	if n := s.Command(get.ID); n.Calls != 3 || n.Took != 6*time.Millisecond || n.Failed != 1 || n.Rejected != 0 ||
		n.Latency == nil {
		t.Errorf("GET: %+v", n)
	}
	if n := s.Command(set.ID); n != (CommandCount{Rejected: 1, Failed: 1}) {
		t.Errorf("SET: %+v", n)
	}
	if _, _, calls, ok := s.Latencies(get); calls != 3 || !ok {
		t.Errorf("%d calls of GET were measured", calls)
	}
	if _, _, _, ok := s.Latencies(set); ok {
		t.Error("calls of SET were measured")
	}
	if got := fmt.Sprint(s.Errors()); got != "[{CODE 1} {ERR 1} {WRONGTYPE 1}]" || s.ErrorReplies.Load() != 3 {
		t.Errorf("%s, %d in all", got, s.ErrorReplies.Load())
	}
	reset := 0
	s.OnReset = func() { reset++ }
	s.Reset()
	if n := s.Command(get.ID); n != (CommandCount{}) || len(s.Errors()) != 0 || s.Commands.Load() != 0 || reset != 1 {
		t.Errorf("after a reset: %+v, %v", n, s.Errors())
	}
}

// Scripts invent kinds of errors: their number and their length are bounded.
func TestErrorKindsAreBounded(t *testing.T) {
	s := NewStats()
	for i := range 2 * maxErrorKinds {
		s.ErrorReply(engine.NewError("", fmt.Sprintf("KIND%d text", i)))
	}
	s.ErrorReply(engine.NewError("", fmt.Sprintf("%0*d text", maxErrorCode+1, 1)))
	if n := len(s.Errors()); n != maxErrorKinds {
		t.Errorf("%d kinds", n)
	}
}

func TestRates(t *testing.T) {
	var s Samples
	if s.Rates() != [NumRates]float64{} {
		t.Error("rates without samples")
	}
	begin := time.Unix(1000, 0)
	sample := func(i int) Sample { return Sample{At: begin.Add(time.Duration(i) * SampleInterval)} }
	for i := range 40 {
		x := sample(i)
		x.Counts[RateCommands], x.Counts[RateNetIn], x.Counts[RatePuts] = int64(i*50), int64(i*1000), int64(7*i)
		s.Add(x)
	}
	if r := s.Rates(); r[RateCommands] != 500 || r[RateNetIn] != 10000 || r[RateNetOut] != 0 || r[RatePuts] != 70 {
		t.Errorf("%v", r)
	}
	s.Add(sample(40)) // the statistics were reset
	if r := s.Rates(); r != [NumRates]float64{} {
		t.Errorf("after a reset: %v", r)
	}
}
