package main

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
)

// The fills of the data types beyond the five core types.

// document is a JSON document of 1 KiB without blanks.
var document = func() string {
	var b strings.Builder
	b.WriteString(`{"id":17,"name":"basalt","tags":["a","b","c"],"nested":{"x":1.5,"y":[1,2,3]},"items":[`)
	for i := 0; b.Len() < 1000; i++ {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"n":%d,"s":"item-%d"}`, i, i)
	}
	b.WriteString("]}")
	return b.String()
}()

func bitsAt(prefix, bit string) func(*loader, int) error {
	return func(l *loader, _ int) error {
		return l.oneEach(prefix, keyspace, func(i int) []string {
			return []string{"SETBIT", prefix + digits(i), "7777", bit}
		})
	}
}

func entry(key string) func(i int) []string {
	return func(i int) []string { return []string{"XADD", key, strconv.Itoa(i+1) + "-0", "field", value} }
}

func stream(key string, size int) func(*loader, int) error {
	return func(l *loader, _ int) error { return l.oneEach(key, size, entry(key), []string{"DEL", key}) }
}

// streamOf returns a fill that makes a stream with one entry for each request. A group has read none of them or, with
// delivered, all.
func streamOf(key string, delivered bool) func(*loader, int) error {
	return func(l *loader, n int) error {
		err := l.oneEach(key, n, entry(key), []string{"DEL", key}, []string{"XGROUP", "CREATE", key, "g", "0", "MKSTREAM"})
		if err != nil || !delivered {
			return err
		}
		return l.each(n, elements, func(from, to int) []string {
			return []string{"XREADGROUP", "GROUP", "g", "c", "COUNT", strconv.Itoa(to - from), "STREAMS", key, ">"}
		})
	}
}

// points makes a geo index of points within a degree of 0, 0. Both servers get the same points.
func points(key string, size int) func(*loader, int) error {
	return func(l *loader, _ int) error {
		r := rand.New(rand.NewPCG(1, 2))
		return l.variadic(key, size, []string{"GEOADD", key}, func(i int) []string {
			return []string{fmt.Sprint(2*r.Float64() - 1), fmt.Sprint(2*r.Float64() - 1), "e:" + digits(i)}
		}, []string{"DEL", key})
	}
}

func bloom(key string, size int) func(*loader, int) error {
	return func(l *loader, _ int) error {
		return l.variadic(key, size, []string{"BF.MADD", key}, func(i int) []string { return []string{"e:" + digits(i)} },
			[]string{"DEL", key}, []string{"BF.RESERVE", key, "0.01", strconv.Itoa(keyspace)})
	}
}

func documentsAt(prefix string) func(*loader, int) error {
	return func(l *loader, _ int) error {
		return l.oneEach(prefix, keyspace, func(i int) []string {
			return []string{"JSON.SET", prefix + digits(i), "$", document}
		})
	}
}

func digest(key string) func(*loader, int) error {
	return func(l *loader, _ int) error {
		return l.variadic(key, 1000, []string{"TDIGEST.ADD", key}, func(i int) []string { return []string{strconv.Itoa(i)} },
			[]string{"DEL", key}, []string{"TDIGEST.CREATE", key})
	}
}
