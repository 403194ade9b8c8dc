package metrics

import (
	"testing"
	"time"
)

// A sample a second is kept, the worst of it, and no more than Redis keeps.
func TestLatencySamples(t *testing.T) {
	var m Latency
	begin := time.Unix(1000, 0)
	for i := range latencySamples + 40 {
		m.Add("fast-command", begin.Add(time.Duration(i)*time.Second/2), time.Duration(i)*time.Millisecond)
	}
	e := m.Events(nil)[0]
	if n := len(e.Samples); n != 100 || e.Samples[99].Milliseconds != 199 || e.Samples[0].Milliseconds != 1 ||
		e.Worst != 199 {
		t.Errorf("%d samples, %+v ... %+v", n, e.Samples[0], e.Samples[len(e.Samples)-1])
	}
	for i := range latencySamples {
		m.Add("fast-command", begin.Add(time.Duration(1000+i)*time.Second), time.Millisecond)
	}
	if e := m.Events(nil)[0]; len(e.Samples) != latencySamples || e.Samples[0].Unix != 2000 || e.Worst != 199 {
		t.Errorf("%d samples from %d on, worst %d", len(e.Samples), e.Samples[0].Unix, e.Worst)
	}
	m.Add("command", begin, time.Second)
	if all := m.Events(nil); len(all) != 2 || all[0].Name != "command" || all[1].Name != "fast-command" {
		t.Errorf("%+v", all)
	}
	if n := m.Reset("nosuch", "command"); n != 1 {
		t.Errorf("%d events were reset", n)
	}
	if n := m.Reset(); n != 1 || len(m.Events(nil)) != 0 {
		t.Errorf("%d events were reset, left are %+v", n, m.Events(nil))
	}
}
