package str_test

import (
	"math/rand/v2"
	"testing"

	"github.com/basaltdb/basalt/engine/str"
)

// lcsLen is the definition.
func lcsLen(a, b []byte, memo map[[2]int]int) int {
	if len(a) == 0 || len(b) == 0 {
		return 0
	}
	at := [2]int{len(a), len(b)}
	if n, ok := memo[at]; ok {
		return n
	}
	n := 0
	if a[0] == b[0] {
		n = 1 + lcsLen(a[1:], b[1:], memo)
	} else {
		n = max(lcsLen(a[1:], b, memo), lcsLen(a, b[1:], memo))
	}
	memo[at] = n
	return n
}

func TestLCSAgainstDefinition(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	random := func() []byte {
		b := make([]byte, rng.IntN(40))
		for i := range b {
			b[i] = byte('a' + rng.IntN(1+rng.IntN(5)))
		}
		return b
	}
	for range 400 {
		a, b := random(), random()
		checkLCS(t, a, b)
	}
}

// checkLCS: the length is right, and the runs spell the subsequence in both strings, from the last to the first.
func checkLCS(t *testing.T, a, b []byte) {
	t.Helper()
	want := lcsLen(a, b, map[[2]int]int{})
	common, parts := str.LCS(a, b)
	if len(common) != want || str.LCSLen(a, b) != want {
		t.Fatalf("%q, %q: lengths %d and %d, want %d", a, b, len(common), str.LCSLen(a, b), want)
	}
	var inA, inB []byte
	endA, endB := -1, -1
	for i := len(parts) - 1; i >= 0; i-- {
		p := parts[i]
		if p.AStart <= endA || p.BStart <= endB || p.Len() < 1 || p.BEnd-p.BStart != p.AEnd-p.AStart {
			t.Fatalf("%q, %q: parts %v", a, b, parts)
		}
		inA = append(inA, a[p.AStart:p.AEnd+1]...)
		inB = append(inB, b[p.BStart:p.BEnd+1]...)
		endA, endB = p.AEnd, p.BEnd
	}
	if string(inA) != string(common) || string(inB) != string(common) {
		t.Fatalf("%q, %q: common %q, the parts spell %q and %q", a, b, common, inA, inB)
	}
}

func FuzzLCS(f *testing.F) {
	f.Add([]byte("ohmytext"), []byte("mynewtext"))
	f.Add([]byte(""), []byte("a"))
	f.Add([]byte("GATTACA"), []byte("TACGACA"))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		if len(a) < 200 && len(b) < 200 {
			checkLCS(t, a, b)
		}
	})
}
