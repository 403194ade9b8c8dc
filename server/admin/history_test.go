package admin

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"
)

// counted is a source whose counts a test sets.
type counted struct {
	source
	vitals  Vitals
	buckets map[float64]uint64
}

func (c *counted) Vitals() Vitals            { return c.vitals }
func (c *counted) Latencies(f func(Latency)) { f(Latency{Buckets: c.buckets}) }

// TestHistory: a ratio or a percentile of nothing is null, which the console plots as a gap, and not 0.
func TestHistory(t *testing.T) {
	c := &counted{}
	h := &history{source: c}
	at := time.Unix(1000, 0)
	for _, tt := range []struct {
		name      string
		hit, miss int64
		buckets   map[float64]uint64
		want      string
	}{
		{"the first one has no rates", 5, 5, map[float64]uint64{0.001: 1, math.Inf(1): 1}, ""},
		{"nothing happened", 5, 5, map[float64]uint64{0.001: 1, math.Inf(1): 1}, `"p50":null,"p99":null,"hits":null`},
		{"calls and reads", 8, 6, map[float64]uint64{0.001: 2, 0.5: 3, math.Inf(1): 3},
			`"p50":1000,"p99":500000,"hits":0.75`},
		{"only misses", 8, 7, map[float64]uint64{0.001: 2, 0.5: 3, math.Inf(1): 3}, `"p50":null,"p99":null,"hits":0`},
		{"longer than the last bound", 8, 7, map[float64]uint64{0.001: 2, 0.5: 3, math.Inf(1): 4},
			`"p50":500000,"p99":500000,"hits":null`},
	} {
		c.vitals.CacheHits, c.vitals.CacheMisses, c.buckets = tt.hit, tt.miss, tt.buckets
		h.take(at)
		at = at.Add(sampleEvery)
		if tt.want == "" {
			if len(h.list) != 0 {
				t.Errorf("%s: %+v", tt.name, h.list)
			}
			continue
		}
		var last map[string]json.RawMessage
		b, err := json.Marshal(h.list[len(h.list)-1])
		if err != nil || json.Unmarshal(b, &last) != nil {
			t.Fatal(err)
		}
		var got []string
		for _, n := range []string{"p50", "p99", "hits"} {
			got = append(got, `"`+n+`":`+string(last[n]))
		}
		if text := strings.Join(got, ","); text != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, text, tt.want)
		}
	}
}
