package derived

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
)

type note struct {
	Entry
	text string
}

type number struct {
	Entry
	n int
}

var (
	notes   = Kind[*note]{ID: Ranks}
	numbers = Kind[*number]{ID: Pops}
)

func key(i int) []byte { return fmt.Appendf(nil, "key%d", i) }

// check compares the sums with what is in the shards.
func check(t *testing.T, r *Registry) {
	t.Helper()
	var used int64
	for id, st := range r.Stats() {
		used += st.Bytes
		if n := r.count[id].Load(); n != st.Entries || st.Entries < 0 || st.Bytes < 0 {
			t.Errorf("%s: %+v, %d entries are counted", ID(id), st, n)
		}
	}
	if used != r.Used() || used > r.Limit() {
		t.Errorf("%d bytes are counted, there are %d, at most %d are allowed", r.Used(), used, r.Limit())
	}
}

func TestFind(t *testing.T) {
	r := New(1 << 20)
	if notes.Any(r) || notes.Find(r, key(1), 1) != nil {
		t.Error("a state out of nowhere")
	}
	a := &note{text: "a"}
	if !notes.Put(r, key(1), 1, a, 10) || notes.Find(r, key(1), 1) != a || notes.Have(r, key(1), 1) != a {
		t.Error("what was put is not found")
	}
	if numbers.Find(r, key(1), 1) != nil {
		t.Error("a state of another kind")
	}
	if notes.Find(r, key(2), 1) != nil {
		t.Error("a state of another key")
	}
	if notes.Find(r, key(1), 2) != nil || notes.Find(r, key(1), 1) != nil {
		t.Error("a state outlived its stamp")
	}
	b, c := &note{text: "b"}, &note{text: "c"}
	notes.Put(r, key(1), 2, b, 10)
	notes.Put(r, key(1), 2, c, 10)
	b.Drop() // it is not kept any more
	b.Resize(1000)
	check(t, r)
	if notes.Find(r, key(1), 2) != c {
		t.Error("the newer state is not found")
	}
	c.Drop()
	c.Drop()
	new(note).Drop()
	new(note).Resize(1)
	if notes.Any(r) || r.Used() != 0 {
		t.Errorf("%d bytes are kept after all was dropped", r.Used())
	}
	notes.Put(r, key(1), 2, &note{}, 10)
	r.Clear()
	check(t, r)
	if notes.Find(r, key(1), 2) != nil || r.Used() != 0 {
		t.Error("a state outlived Clear")
	}
	if st := r.Stats()[Ranks]; st.Hits != 2 || st.Misses != 5 {
		t.Errorf("%+v", st)
	}
}

func TestLimit(t *testing.T) {
	const limit = 1 << 20
	r := New(limit)
	if notes.Put(r, key(0), 0, &note{}, limit/4) {
		t.Error("a state of a quarter of the limit and more is kept")
	}
	big := &note{}
	notes.Put(r, key(0), 0, big, 10)
	if big.Resize(limit / 4); notes.Any(r) {
		t.Error("a state that grew to a quarter of the limit and more is kept")
	}
	const n = 10_000
	for i := range n {
		notes.Put(r, key(i), 0, &note{}, 1000)
		notes.Find(r, key(0), 0) // stays
	}
	check(t, r)
	st := r.Stats()[Ranks]
	if want := int64(limit / (1000 + overhead + 7)); st.Entries < want-2 || st.Entries > want+2 {
		t.Errorf("%d are kept, there is room for %d", st.Entries, want)
	}
	if notes.Have(r, key(0), 0) == nil {
		t.Error("what was used all the time is gone")
	}
	last := 0
	for i := n - 400; i < n; i++ {
		if notes.Have(r, key(i), 0) != nil {
			last++
		}
	}
	if last < 300 {
		t.Errorf("only %d of the last 400 are kept", last)
	}
	for i := range n { // growing states displace others
		if s := notes.Have(r, key(i), 0); s != nil {
			s.Resize(2000)
		}
	}
	check(t, r)
	r.SetLimit(limit / 10)
	check(t, r)
	r.SetLimit(0)
	if check(t, r); notes.Any(r) || notes.Put(r, key(1), 0, &note{}, 0) {
		t.Error("states are kept although none are allowed")
	}
}

func TestWorth(t *testing.T) {
	r := New(1 << 20)
	if notes.Worth(r, key(1), 1, 100) {
		t.Error("a state is worth to be made that was never asked for")
	}
	notes.Asked(r, key(1), 1)
	if !notes.Worth(r, key(1), 1, 100) || notes.Worth(r, key(1), 2, 100) || numbers.Worth(r, key(1), 1, 100) ||
		notes.Worth(r, key(1), 1, 1<<20) {
		t.Error("only the state that was asked for, with its stamp, is worth to be made, if it is not too big")
	}
	for i := range 2000 {
		notes.Put(r, key(i), 0, &note{}, 1000)
	}
	notes.Asked(r, key(1), 1)
	worth := 0
	for range 1000 {
		if notes.Worth(r, key(1), 1, 1000) {
			worth++
		}
	}
	if worth == 0 || worth > 500 {
		t.Errorf("%d of 1000 times a state is worth to be made without room", worth)
	}
}

// TestConcurrently uses, grows, drops and clears states from several goroutines; -race looks at the rest.
func TestConcurrently(t *testing.T) {
	r := New(256 << 10)
	var all sync.WaitGroup
	for g := range 4 {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(1, uint64(g)))
			for i := range 20_000 {
				k := rng.IntN(2000)
				switch n := rng.IntN(100); {
				case n < 50:
					if s := numbers.Find(r, key(k), uint64(k)); s != nil && s.n != k {
						t.Errorf("the state of %d is found for %d", s.n, k)
					}
				case n < 80:
					numbers.Put(r, key(k), uint64(k), &number{n: k}, rng.IntN(1000))
				case n < 90:
					if s := numbers.Have(r, key(k), uint64(k)); s != nil {
						s.Resize(rng.IntN(2000))
					}
				case n < 98:
					if s := numbers.Have(r, key(k), uint64(k+rng.IntN(2))); s != nil {
						s.Drop()
					}
				case i%100 == 0:
					r.Clear()
				default:
					r.SetLimit(int64(128+rng.IntN(128)) << 10)
				}
			}
		})
	}
	all.Wait()
	check(t, r)
}

// cache is a state that can give up a part of its memory.
type cache struct {
	Entry
	full bool
}

func (c *cache) Shrink() { c.full = false }

// TestShrink lets six states grow to a fifth of the limit, most of which they can give up again.
func TestShrink(t *testing.T) {
	const limit, small, big = 1 << 20, 100, 1<<20/5 - 1000
	caches := Kind[*cache]{ID: Runs}
	r := New(limit)
	var all [6]cache
	for i := range all {
		caches.Put(r, key(i), 0, &all[i], small)
	}
	for i := range all {
		all[i].full = true
		all[i].ResizeSpare(big, big-small)
		check(t, r)
	}
	full := 0
	for i := range all {
		if caches.Have(r, key(i), 0) != &all[i] {
			t.Errorf("state %d is gone", i)
		}
		if all[i].full {
			full++
		}
	}
	if full != 5 {
		t.Errorf("%d states are full, there is room for 5", full)
	}
	r.SetLimit(0) // states without spare bytes are evicted
	check(t, r)
	if caches.Any(r) {
		t.Error("states are kept although none are allowed")
	}
}

// TestWorthGrowing asks whether a state should grow while the registry has room, little room, and none for so large a
// state.
func TestWorthGrowing(t *testing.T) {
	const limit, tries = 1 << 20, 1000
	r := New(limit)
	c := &note{}
	worth := func(bytes int) (n int) {
		for range tries {
			if c.WorthGrowing(bytes) {
				n++
			}
		}
		return n
	}
	if worth(1) > 0 || c.MaxSize() != 0 {
		t.Error("a state that is not kept should grow")
	}
	notes.Put(r, key(0), 0, c, 10)
	if n := worth(limit / 8); n != tries {
		t.Errorf("with room: %d of %d times", n, tries)
	}
	// The bounds are 10 standard deviations and more from the mean.
	seldom := func(n int) bool { return n > tries/oneOf/10 && n < 3*tries/oneOf }
	if n := worth(c.MaxSize() + 1); !seldom(n) {
		t.Errorf("beyond the share: %d of %d times", n, tries)
	}
	for i := range 4 {
		notes.Put(r, key(i+1), 0, &note{}, limit/5)
	}
	if n := worth(1000); !seldom(n) {
		t.Errorf("with little room: %d of %d times", n, tries)
	}
}
