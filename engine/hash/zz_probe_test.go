package hash_test

import (
	"fmt"
	"testing"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/engine/hash"
	"github.com/basaltdb/basalt/engine/list"
	"github.com/basaltdb/basalt/engine/set"
)

func BenchmarkProbe(b *testing.B) {
	ns := "__namespace"
	var i int
	f := []byte("0000000000")
	next := func() []byte { i++; for j, n := 9, i; j >= 0; j-- { f[j] = byte('0' + n%10); n /= 10 }; return f }
	val := make([]byte, 128)
	pair := [][]byte{nil, val}
	one := [][]byte{nil}
	for _, c := range []struct {
		name string
		do   func(tx *engine.Tx, key []byte) error
	}{
		{"hset", func(tx *engine.Tx, key []byte) error { pair[0] = next(); _, err := hash.Set(tx, key, pair); return err }},
		{"hincrby", func(tx *engine.Tx, key []byte) error { _, err := hash.IncrBy(tx, key, []byte("c"), 1); return err }},
		{"hdel", func(tx *engine.Tx, key []byte) error { one[0] = next(); if _, err := hash.Delete(tx, key, one); err != nil { return err }; return nil }},
		{"hget", func(tx *engine.Tx, key []byte) error { _, _, err := hash.Get(tx, key, f); return err }},
		{"sadd", func(tx *engine.Tx, key []byte) error { one[0] = next(); _, err := set.Add(tx, append(key, 's'), one); return err }},
		{"srem", func(tx *engine.Tx, key []byte) error { one[0] = next(); _, err := set.Remove(tx, append(key, 's'), one); return err }},
		{"lpush", func(tx *engine.Tx, key []byte) error { one[0] = next(); _, err := list.Push(tx, append(key, 'l'), one, true, false); return err }},
		{"lpop", func(tx *engine.Tx, key []byte) error { return list.Pop(tx, append(key, 'l'), 1, true, func(uint64) {}, func([]byte) {}) }},
		{"lset", func(tx *engine.Tx, key []byte) error { err := list.Set(tx, append(key, 'l'), 0, next()); if err == list.ErrNoKey { err = nil }; return err }},
	} {
		for _, run := range []int{16} {
			b.Run(fmt.Sprintf("%s-%d", c.name, run), func(b *testing.B) {
				db := enginetest.Open(b)
				key := append(make([]byte, 0, 10), 'k')
				tx := db.NewTx()
				tx.Begin(ns)
				hash.Set(tx, key, [][]byte{[]byte("seed"), val, []byte("s2"), val})
				set.Add(tx, append(key, 's'), [][]byte{[]byte("seed"), []byte("s2")})
				for j := 0; j < b.N && c.name != "hset" && c.name != "sadd"; j++ {
					i = j - 1
					pair[0] = next(); hash.Set(tx, key, pair)
					one[0] = f; set.Add(tx, append(key, 's'), one)
					list.Push(tx, append(key, 'l'), one, true, false)
					if j%1000 == 999 { tx.Commit(); tx.Release(); tx.Begin(ns) }
				}
				tx.Commit()
				tx.Release()
				i = 0
				b.ReportAllocs()
				b.ResetTimer()
				for n := 0; n < b.N; n += run {
					tx.Begin(ns)
					tx.AddLock(key, true)
					tx.Acquire()
					for range run { if err := c.do(tx, key); err != nil { b.Fatal(err) } }
					if err := tx.Commit(); err != nil { b.Fatal(err) }
					tx.Release()
				}
			})
		}
	}
}
