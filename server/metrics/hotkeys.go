package metrics

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// HotKeys estimates which keys get the most commands of the last minutes. Of every hotEvery commands on average one is
// looked at, and one of its keys counts.
//
// The counts are those of the space-saving algorithm (Metwally, Agrawal, El Abbadi 2005): hotKeys counters, and a key
// that has none takes over the smallest one, whose count stays as the error of its own. A key that gets more than one
// in hotKeys of the commands always has a counter. All counts are halved every hotHalf, so a key that is not used any
// more makes room. The zero value is ready; any number of goroutines may use it.
type HotKeys struct {
	mu     sync.Mutex
	byName map[string]int // place of a name in the slices
	names  []hotName
	counts []float64 // apart from the names, as the smallest is searched for
	slack  []float64 // of the counts, what may be of other keys

	name    []byte  // buffer
	total   float64 // of all keys
	decayed time.Time
}

type hotName struct {
	namespace, key string
	name           string // of byName
}

// The bounds of HotKeys.
const (
	hotEvery = 256
	hotKeys  = 128
	hotHalf  = time.Minute
	hotStep  = 5 * time.Second // between two decays
	// hotSure is how many samples a key must have had for sure to be shown: with fewer it is there by chance.
	hotSure = 3
	// maxHotKey is the longest name of a key that is kept, in bytes: it bounds the memory.
	maxHotKey = 512
)

// NextSample returns after how many commands the next one is looked at: a random number, so that no pattern of commands
// is in step with it.
func NextSample() int { return 1 + rand.IntN(2*hotEvery-1) }

// Add counts a command for a key.
func (h *HotKeys) Add(namespace string, key []byte, now time.Time) {
	if len(key) > maxHotKey {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.decay(now)
	h.total++
	i, ok := h.find(namespace, key)
	if ok {
		h.counts[i]++
		return
	}
	if i = len(h.names); i < hotKeys {
		h.names, h.counts, h.slack = append(h.names, hotName{}), append(h.counts, 0), append(h.slack, 0)
	} else {
		i = 0
		for j, n := range h.counts {
			if n < h.counts[i] {
				i = j
			}
		}
		delete(h.byName, h.names[i].name)
	}
	h.slack[i] = h.counts[i]
	h.counts[i]++
	name := string(h.name)
	h.names[i] = hotName{namespace: namespace, key: name[len(name)-len(key):], name: name}
	if h.byName == nil {
		h.byName = map[string]int{}
	}
	h.byName[name] = i
}

// find returns the place of a key, and leaves its name in h.name. mu must be held.
func (h *HotKeys) find(namespace string, key []byte) (i int, ok bool) {
	h.name = append(append(append(h.name[:0], byte(len(namespace))), namespace...), key...)
	i, ok = h.byName[string(h.name)]
	return i, ok
}

// sure returns how many samples a key has had at least. mu must be held.
func (h *HotKeys) sure(i int) float64 { return h.counts[i] - h.slack[i] }

// decay lets the counts shrink with the time. mu must be held.
func (h *HotKeys) decay(now time.Time) {
	since := now.Sub(h.decayed)
	if since < hotStep {
		return
	}
	h.decayed = now
	factor := math.Exp2(-float64(since) / float64(hotHalf))
	h.total *= factor
	for i := range h.counts {
		h.counts[i] *= factor
		h.slack[i] *= factor
	}
}

// HotKey is a key that gets many commands.
type HotKey struct {
	Namespace, Key string
	// Share is the key's share of all commands that name a key, 0 to 1, at least: the error is taken off.
	Share float64
}

// Top returns the hottest keys, at most n, the hottest first.
func (h *HotKeys) Top(n int, now time.Time) (top []HotKey) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.decay(now)
	for i, name := range h.names {
		if sure := h.sure(i); sure >= hotSure {
			top = append(top, HotKey{name.namespace, name.key, sure / h.total})
		}
	}
	slices.SortFunc(top, func(a, b HotKey) int { return cmp.Compare(b.Share, a.Share) })
	return top[:min(n, len(top))]
}

// Frequency is OBJECT FREQ: about how often a key was accessed lately, on the logarithmic scale of Redis's LFU counter
// with its default lfu-log-factor, 5 (new) to 255 (a million times); 0 for a key that is not among the hot ones.
func (h *HotKeys) Frequency(namespace string, key []byte, now time.Time) int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.decay(now)
	i, ok := h.find(namespace, key)
	if !ok || h.sure(i) < hotSure {
		return 0
	}
	// The counter n grows by one with a probability of 1/((n-5)*10+1): after 5(n-5)^2 accesses on average.
	const initial, factor = 5, 10
	return initial + min(int64(math.Sqrt(h.sure(i)*hotEvery/(factor/2))), math.MaxUint8-initial)
}
