package pubsub

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
)

// A nameSet is a set, few names or many, and keeps their order until one is removed.
func TestNameSet(t *testing.T) {
	var s nameSet
	want := map[string]bool{}
	r := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		name := strconv.Itoa(r.IntN(1 + r.IntN(40)))
		if r.IntN(2) == 0 {
			if got := s.add(name); got == want[name] {
				t.Fatalf("add %s: %t", name, got)
			}
			want[name] = true
		} else {
			if got := s.remove(name); got != want[name] {
				t.Fatalf("remove %s: %t", name, got)
			}
			delete(want, name)
		}
		if got := slices.Sorted(slices.Values(s.names)); !slices.Equal(got, slices.Sorted(maps.Keys(want))) {
			t.Fatalf("%v, want %v", got, want)
		}
		for i, name := range s.names {
			if s.index(name) != i {
				t.Fatalf("%s is at %d and not at %d", name, i, s.index(name))
			}
		}
	}
	var ordered nameSet
	for i := range 100 {
		ordered.add(strconv.Itoa(i))
	}
	for i, name := range ordered.names {
		if name != strconv.Itoa(i) {
			t.Fatalf("%s is at %d", name, i)
		}
	}
}
