package admin

import (
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// The history that the console plots: the last samples, one every sampleEvery.
const (
	sampleEvery = 2 * time.Second
	samples     = 450 // 15 minutes
)

// sample is one measurement. Rates refer to the time since the previous sample. A value without anything to measure is
// nil: the plot has a gap there.
type sample struct {
	At       int64    `json:"at"` // ms since the epoch
	Ops      float64  `json:"ops"`
	P50      *float64 `json:"p50"` // microseconds
	P99      *float64 `json:"p99"`
	In       float64  `json:"in"` // bytes a second
	Out      float64  `json:"out"`
	Memory   float64  `json:"memory"`
	Clients  float64  `json:"clients"`
	HitRatio *float64 `json:"hits"`    // of the block cache, 0 to 1
	Written  float64  `json:"written"` // bytes a second by flushes and compactions
}

// history samples a source.
type history struct {
	source Source

	mu   sync.Mutex
	list []sample

	// The counters of the last sample.
	at      time.Time // zero = no sample yet
	last    Vitals
	buckets map[float64]uint64
}

// run samples until stop is closed.
func (h *history) run(stop <-chan struct{}) {
	t := time.NewTicker(sampleEvery)
	defer t.Stop()
	for {
		h.take(time.Now())
		select {
		case <-stop:
			return
		case <-t.C:
		}
	}
}

func (h *history) take(now time.Time) {
	v := h.source.Vitals()
	buckets := map[float64]uint64{}
	h.source.Latencies(func(l Latency) {
		for s, n := range l.Buckets {
			buckets[s] += n
		}
	})
	h.mu.Lock()
	defer h.mu.Unlock()
	last, before, since := h.last, h.buckets, h.at
	h.last, h.buckets, h.at = v, buckets, now
	seconds := now.Sub(since).Seconds()
	if since.IsZero() || seconds <= 0 {
		return
	}
	rate := func(now, before int64) float64 { return float64(max(0, now-before)) / seconds }
	s := sample{At: now.UnixMilli(), Ops: rate(v.Commands, last.Commands), In: rate(v.NetIn, last.NetIn),
		Out: rate(v.NetOut, last.NetOut), Memory: float64(v.Memory), Clients: float64(v.Clients),
		Written: rate(v.Flushed, last.Flushed) + rate(v.Compacted, last.Compacted)}
	if hit, miss := rate(v.CacheHits, last.CacheHits), rate(v.CacheMisses, last.CacheMisses); hit+miss > 0 {
		ratio := hit / (hit + miss)
		s.HitRatio = &ratio
	}
	s.P50, s.P99 = percentile(before, buckets, 0.5), percentile(before, buckets, 0.99)
	if len(h.list) == samples {
		h.list = slices.Delete(h.list, 0, 1)
	}
	h.list = append(h.list, s)
}

// ops returns the commands per second of the last sample.
func (h *history) ops() float64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.list) == 0 {
		return 0
	}
	return h.list[len(h.list)-1].Ops
}

// percentile returns the upper bound, in microseconds, of the bucket that contains a share of the calls between two
// counts, nil without a call. A bucket counts the calls up to its bound.
func percentile(before, after map[float64]uint64, share float64) *float64 {
	grown := func(b float64) uint64 {
		if after[b] < before[b] { // CONFIG RESETSTAT
			return after[b]
		}
		return after[b] - before[b]
	}
	bounds := slices.Sorted(maps.Keys(after))
	if len(bounds) == 0 || grown(bounds[len(bounds)-1]) == 0 {
		return nil
	}
	total := grown(bounds[len(bounds)-1])
	i := slices.IndexFunc(bounds, func(b float64) bool { return float64(grown(b)) >= share*float64(total) })
	if math.IsInf(bounds[i], 0) { // the best that is known
		i = max(0, i-1)
	}
	micros := bounds[i] * 1e6
	return &micros
}

func (c *consoles) showHistory(w http.ResponseWriter, _ *http.Request, s *consoleSession) error {
	if err := s.allowed("INFO"); err != nil {
		return err
	}
	c.history.mu.Lock()
	list := slices.Clone(c.history.list)
	c.history.mu.Unlock()
	c.answer(w, list)
	return nil
}

// allowed asks the server whether the user may run a command, by running it.
func (s *consoleSession) allowed(args ...string) error {
	replies, err := s.do([][]string{args})
	if err != nil {
		return err
	}
	if e, ok := replies[0].(map[string]any); ok && e["error"] != nil {
		text, _ := e["error"].(string)
		if !strings.HasPrefix(text, "ERR no such key") {
			return deniedError(text)
		}
	}
	return nil
}
