package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strconv"

	"github.com/basaltdb/basalt/scripts/internal/loadgen"
)

// dataset is what a server is filled with.
type dataset struct {
	name  string
	keys  int
	fill  *loadgen.Op // makes a key with all that is in it
	bytes int64       // of a key and all that is in it, as a client counts them
	order []uint32    // the keys in a shuffled order
	zipf  *loadgen.Zipf
}

// prepare makes what the rows choose keys with.
func (d *dataset) prepare() {
	d.order = make([]uint32, d.keys)
	for i := range d.order {
		d.order[i] = uint32(i)
	}
	r := rand.New(rand.NewPCG(3, 4))
	r.Shuffle(d.keys, func(i, j int) { d.order[i], d.order[j] = d.order[j], d.order[i] })
	d.zipf = loadgen.NewZipf(d.keys)
}

// choose chooses the number of a key.
type choose func(d *dataset, r *rand.Rand) int

func uniform(d *dataset, r *rand.Rand) int { return r.IntN(d.keys) }

// zipfian prefers few keys, which lie anywhere among the others.
func zipfian(d *dataset, r *rand.Rand) int { return int(d.order[d.zipf.Next(r)]) }

// hotShare is the share of the keys that are hot.
const hotShare = 20

// hot are 5 % of the keys, which lie anywhere among the others.
func hot(d *dataset, r *rand.Rand) int { return int(d.order[r.IntN(d.keys/hotShare)]) }

// fresh is a key that was not there before, almost always.
func fresh(_ *dataset, r *rand.Rand) int { return r.IntN(1e12) }

// keyLength is that of "key:" and a number.
const keyLength = len("key:") + loadgen.Digits

// word is one argument of a request.
type word func(dst []byte, r *rand.Rand, key int) []byte

// literal is an argument that is always the same.
func literal(s string) word {
	text := string(loadgen.AppendBulk(nil, s))
	return func(dst []byte, _ *rand.Rand, _ int) []byte { return append(dst, text...) }
}

// keyed is the prefix and the number of the key.
func keyed(prefix string) word {
	head := fmt.Sprintf("$%d\r\n%s", len(prefix)+loadgen.Digits, prefix)
	return func(dst []byte, _ *rand.Rand, key int) []byte {
		return append(loadgen.AppendDigits(append(dst, head...), key), '\r', '\n')
	}
}

// valued is a random value of size bytes that begins with the number of the key.
func valued(size int) word {
	head := fmt.Sprintf("$%d\r\n", size)
	return func(dst []byte, r *rand.Rand, key int) []byte {
		return append(loadgen.AppendValue(append(dst, head...), r, key, size), '\r', '\n')
	}
}

// request is an operation with these arguments.
func request(check func(reply []byte, key int) bool, words ...word) *loadgen.Op {
	head := "*" + strconv.Itoa(len(words)) + "\r\n"
	return &loadgen.Op{Check: check, Encode: func(dst []byte, r *rand.Rand, key int) []byte {
		dst = append(dst, head...)
		for _, w := range words {
			dst = w(dst, r, key)
		}
		return dst
	}}
}

// The checks of replies.

func isOK(reply []byte, _ int) bool      { return string(reply) == "+OK\r\n" }
func isInteger(reply []byte, _ int) bool { return reply[0] == ':' }

// isOne is the reply to INCR of a new key. A number drawn twice is rare and no fault.
func isOne(reply []byte, _ int) bool { return reply[0] == ':' && reply[1] != '0' }

// isValue is a bulk string made by valued.
func isValue(size int) func(reply []byte, key int) bool {
	head := fmt.Sprintf("$%d\r\n", size)
	return func(reply []byte, key int) bool {
		var digits [loadgen.Digits]byte
		return len(reply) == len(head)+size+2 && string(reply[:len(head)]) == head &&
			bytes.Equal(reply[len(head):len(head)+loadgen.Digits], loadgen.AppendDigits(digits[:0], key))
	}
}

// valuesOf is strings of size bytes.
func valuesOf(name string, size, keys int) *dataset {
	return &dataset{
		name: name, keys: keys, bytes: int64(keyLength + size),
		fill: set(size),
	}
}

func set(size int) *loadgen.Op { return request(isOK, literal("SET"), keyed("key:"), valued(size)) }
func get(size int) *loadgen.Op { return request(isValue(size), literal("GET"), keyed("key:")) }

var incrNew = request(isOne, literal("INCR"), keyed("new:"))
