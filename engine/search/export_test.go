package search

import "math/rand/v2"

// DrawLevels makes the levels of new nodes follow from a seed.
func DrawLevels(seed uint64) { random = rand.New(rand.NewPCG(seed, 0)).Float64 }

// Draw makes the levels of new nodes follow from numbers of [0, 1), taken in turn.
func Draw(numbers ...float64) {
	random = func() float64 {
		x := numbers[0]
		numbers = numbers[1:]
		return x
	}
}
