package hash_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/engine/hash"
	"github.com/basaltdb/basalt/internal/require"
)

// benchmarks are operations on a hash of 100 fields; nothing is committed.
var benchmarks = []struct {
	name string
	f    func(tx *engine.Tx, key []byte, i int) error
}{
	{"Len", func(tx *engine.Tx, key []byte, _ int) error { _, err := hash.Len(tx, key); return err }},
	{"Get", func(tx *engine.Tx, key []byte, i int) error {
		_, _, err := hash.Get(tx, key, benchFields[i%100])
		return err
	}},
	{"GetMany10", func(tx *engine.Tx, key []byte, i int) error {
		_, err := hash.GetMany(tx, key, benchFields[i%90:][:10])
		return err
	}},
	{"Each", func(tx *engine.Tx, key []byte, _ int) error {
		return hash.Each(tx, key, false, func(uint64) {}, func(_, _ []byte) {})
	}},
	{"Set", func(tx *engine.Tx, key []byte, i int) error {
		_, err := hash.Set(tx, key, benchPairs[i%100*2:][:2])
		return err
	}},
	{"Set10", func(tx *engine.Tx, key []byte, i int) error {
		_, err := hash.Set(tx, key, benchPairs[i%90*2:][:20])
		return err
	}},
	{"IncrBy", func(tx *engine.Tx, key []byte, _ int) error {
		_, err := hash.IncrBy(tx, key, []byte("count"), 1)
		return err
	}},
	{"Delete", func(tx *engine.Tx, key []byte, i int) error {
		_, err := hash.Delete(tx, key, benchFields[i%100:][:1])
		return err
	}},
}

var benchFields, benchPairs = func() (fields, pairs [][]byte) {
	for i := range 100 {
		fields = append(fields, fmt.Appendf(nil, "field:%02d", i))
		pairs = append(pairs, fields[i], []byte("another value"))
	}
	return fields, pairs
}()

// BenchmarkHash measures the functions on a plain hash, which the expiry of fields must not slow down.
func BenchmarkHash(b *testing.B) { benchmark(b, func(tx *engine.Tx, key []byte) error { return nil }) }

func benchmark(b *testing.B, prepare func(tx *engine.Tx, key []byte) error) {
	db := enginetest.Open(b)
	key := []byte("hash")
	update(b, db, key, func(tx *engine.Tx) error {
		for _, f := range benchFields {
			if _, err := hash.Set(tx, key, [][]byte{f, []byte("some value")}); err != nil {
				return err
			}
		}
		if _, err := hash.IncrBy(tx, key, []byte("count"), 1); err != nil {
			return err
		}
		return prepare(tx, key)
	})
	for _, bm := range benchmarks {
		b.Run(bm.name, func(b *testing.B) {
			b.ReportAllocs()
			tx := db.NewTx()
			for i := 0; b.Loop(); i++ {
				tx.Begin(ns)
				tx.AddLock(key, true)
				tx.Acquire()
				require.NoError(b, bm.f(tx, key, i))
				tx.Release()
			}
		})
	}
}

// BenchmarkHashTTL measures them on a hash of which every other field expires some day.
func BenchmarkHashTTL(b *testing.B) {
	benchmark(b, func(tx *engine.Tx, key []byte) error {
		var some [][]byte
		for i := 0; i < len(benchFields); i += 2 {
			some = append(some, benchFields[i])
		}
		_, err := hash.Expire(tx, key, some, time.Now().UnixMilli()+3600_000, hash.Always)
		return err
	})
}

// BenchmarkLen measures how long it takes to count the fields of a big hash when some may have expired.
func BenchmarkLen(b *testing.B) {
	const n = 10_000
	db := enginetest.Open(b)
	key := []byte("hash")
	soon := time.Now().UnixMilli() + 3600_000
	update(b, db, key, func(tx *engine.Tx) error {
		var pairs [][]byte
		for i := range n {
			pairs = append(pairs, fmt.Appendf(nil, "field:%05d", i), []byte("some value"))
		}
		if _, err := hash.Set(tx, key, pairs); err != nil {
			return err
		}
		for i, at := range []int64{soon, soon + 100} {
			if _, err := hash.Expire(tx, key, [][]byte{pairs[2*i]}, at, hash.Always); err != nil {
				return err
			}
		}
		return nil
	})
	for name, now := range map[string]int64{"NoneExpired": soon, "SomeExpired": soon + 50, "AllExpired": soon + 101} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			tx := db.NewTx()
			for b.Loop() {
				tx.Begin(ns)
				tx.Tick(now)
				if _, err := hash.Len(tx, key); err != nil {
					b.Fatal(err)
				}
				tx.Release()
			}
		})
	}
}
