package pubsub

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
)

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
		if got := slices.Sorted(maps.Keys(s.names)); !slices.Equal(got, slices.Sorted(maps.Keys(want))) {
			t.Fatalf("%v, want %v", got, want)
		}
	}
}
