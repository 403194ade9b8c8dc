package zset

import (
	"errors"

	"github.com/basaltdb/basalt/engine"
)

// Ranked reports whether the counts of a set are in the rank cache and can be trusted.
func Ranked(tx *engine.Tx, key []byte) bool {
	rec, err := load(tx, key)
	return err == nil && rec.Exists && ranks.ready(tx, &rec) != nil
}

// Blocks returns the number of blocks of a set in the rank cache, and of entries in the biggest one.
func Blocks(tx *engine.Tx, key []byte) (n int, biggest uint64) {
	rec, err := load(tx, key)
	if err != nil || !rec.Exists {
		return 0, 0
	}
	a := ranks.ready(tx, &rec)
	if a == nil {
		return 0, 0
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range a.count {
		biggest = max(biggest, c)
	}
	return len(a.count), biggest
}

// Builds returns how often the entries of a set were counted for the rank cache.
func Builds() uint64 { return ranks.token.Load() }

// BeginRanks begins to count the entries of a set; the function that it returns does it.
func BeginRanks(tx *engine.Tx, key []byte) (finish func() error, err error) {
	rec, err := load(tx, key)
	if err != nil {
		return nil, err
	}
	for range rankMinAsks {
		ranks.asked(tx, &rec)
	}
	a, it := ranks.begin(tx, &rec)
	if a == nil {
		return nil, errors.New("the counting did not begin")
	}
	return func() error { return ranks.fill(a, it, rankBlockOf(rec.Size)) }, nil
}

// Ahead returns how many of the members to be popped next are remembered.
func Ahead(tx *engine.Tx, key []byte, highest bool) int {
	rec, err := load(tx, key)
	if err != nil {
		return 0
	}
	a := pops.of(tx, &rec, false)
	if a == nil {
		return 0
	}
	return a.run(highest).left()
}

// Bounds of the rank cache.
const (
	RankMinSize = rankMinSize
	RankMaxIdle = rankMaxIdle
	RankMaxSets = rankMaxSets
)
