package zset

import (
	"errors"

	"github.com/basaltdb/basalt/engine"
)

// Ranked reports whether the counts of a set are kept and can be trusted.
func Ranked(tx *engine.Tx, key []byte) bool {
	n, _ := Blocks(tx, key)
	return n > 0
}

// Blocks returns the number of blocks of a set whose counts are kept, and of entries in the biggest one.
func Blocks(tx *engine.Tx, key []byte) (n int, biggest uint64) {
	rec, err := load(tx, key)
	if err != nil || !rec.Exists {
		return 0, 0
	}
	a := findRanks(tx, &rec)
	if a == nil {
		return 0, 0
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.usable(&rec) {
		return 0, 0
	}
	if a.whole {
		return len(a.subs(0).ends), 1
	}
	for _, c := range a.blocks.count {
		biggest = max(biggest, uint64(c))
	}
	return len(a.blocks.count), biggest
}

// Kept returns of how many blocks the entries are kept, and the bytes of the counts and of those entries.
func Kept(tx *engine.Tx, key []byte) (blocks, bytes int) {
	rec, err := load(tx, key)
	if err != nil || !rec.Exists {
		return 0, 0
	}
	a := findRanks(tx, &rec)
	if a == nil {
		return 0, 0
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range a.blocks.count {
		if a.subs(i) != nil {
			blocks++
		}
	}
	return blocks, a.memory()
}

// Whole reports whether the entries of a small set are kept.
func Whole(tx *engine.Tx, key []byte) bool {
	rec, err := load(tx, key)
	if err != nil || !rec.Exists {
		return false
	}
	a := findRanks(tx, &rec)
	return a != nil && a.whole
}

// RanksOf returns the state itself.
func RanksOf(tx *engine.Tx, key []byte) any {
	rec, err := load(tx, key)
	if err != nil {
		return err
	}
	return findRanks(tx, &rec)
}

// BeginRanks begins to count the entries of a set; the function that it returns does it.
func BeginRanks(tx *engine.Tx, key []byte) (finish func() error, err error) {
	rec, err := load(tx, key)
	if err != nil {
		return nil, err
	}
	engine.AskedState(tx, rankKind, &rec)
	a, it := wantRanks(tx, &rec)
	if a == nil {
		return nil, errors.New("the counting did not begin")
	}
	return func() error { return a.settle(it, &rec, nil) }, nil
}

// Ahead returns how many of the members to be popped next are remembered.
func Ahead(tx *engine.Tx, key []byte, highest bool) int {
	rec, err := load(tx, key)
	if err != nil {
		return 0
	}
	p := engine.FindState(tx, popKind, &rec)
	if p == nil {
		return 0
	}
	return p.run(highest).left()
}

// RankSingle is how many members a set may have whose members are counted one by one.
const RankSingle = rankSingle
