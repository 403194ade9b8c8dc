package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strconv"

	"github.com/basaltdb/basalt/scripts/internal/loadgen"
	"github.com/basaltdb/basalt/server/resp"
)

// dataset is the data with which a server is filled.
type dataset struct {
	name  string
	keys  int
	fill  *loadgen.Op // creates a key with all its elements
	bytes int64       // of a key with all its elements, as a client counts them
	order []uint32    // the keys in random order
	zipf  *loadgen.Zipf
}

// prepare creates what the rows use to choose keys.
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

// zipfian prefers few keys, scattered among the others.
func zipfian(d *dataset, r *rand.Rand) int { return int(d.order[d.zipf.Next(r)]) }

// hotShare is the share of the keys that are hot.
const hotShare = 20

// hot chooses among the first 5 % of the keys, which are neighbours in the files, like the keys of one day or one user:
// their blocks fit into memory. (For scattered popular keys see zipfian.)
func hot(d *dataset, r *rand.Rand) int { return r.IntN(d.keys / hotShare) }

// fresh chooses a key that almost certainly does not exist.
func fresh(_ *dataset, r *rand.Rand) int { return r.IntN(1e12) }

// keyLength is the length of "key:" and a number.
const keyLength = len("key:") + loadgen.Digits

// word is one argument of a request.
type word func(dst []byte, r *rand.Rand, key int) []byte

// literal returns a constant argument.
func literal(s string) word {
	text := string(resp.AppendBulk(nil, s))
	return func(dst []byte, _ *rand.Rand, _ int) []byte { return append(dst, text...) }
}

// keyed returns an argument of a prefix and the number of the key.
func keyed(prefix string) word {
	head := fmt.Sprintf("$%d\r\n%s", len(prefix)+loadgen.Digits, prefix)
	return func(dst []byte, _ *rand.Rand, key int) []byte {
		return append(loadgen.AppendDigits(append(dst, head...), key), '\r', '\n')
	}
}

// valued returns a random value of size bytes that begins with the number of the key.
func valued(size int) word {
	head := fmt.Sprintf("$%d\r\n", size)
	return func(dst []byte, r *rand.Rand, key int) []byte {
		return append(loadgen.AppendValue(append(dst, head...), r, key, size), '\r', '\n')
	}
}

// request returns an operation with these arguments.
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

func isInteger(reply []byte, _ int) bool { return reply[0] == ':' }

// isOne accepts the reply to INCR of a new key. A number that is drawn twice is rare, and not an error.
func isOne(reply []byte, _ int) bool { return reply[0] == ':' && reply[1] != '0' }

// isValue accepts a bulk string that valued has made.
func isValue(size int) func(reply []byte, key int) bool {
	head := fmt.Sprintf("$%d\r\n", size)
	return func(reply []byte, key int) bool {
		var digits [loadgen.Digits]byte
		return len(reply) == len(head)+size+2 && string(reply[:len(head)]) == head &&
			bytes.Equal(reply[len(head):len(head)+loadgen.Digits], loadgen.AppendDigits(digits[:0], key))
	}
}

// hasElements accepts an array of n elements.
func hasElements(n int) func(reply []byte, key int) bool {
	head := []byte(fmt.Sprintf("*%d\r\n", n))
	return func(reply []byte, _ int) bool { return bytes.HasPrefix(reply, head) }
}

// isBulk accepts any bulk string.
func isBulk(reply []byte, _ int) bool { return reply[0] == '$' && reply[1] != '-' }

// valuesOf returns a data set of strings of size bytes.
func valuesOf(name string, size, keys int) *dataset {
	return &dataset{name: name, keys: keys, bytes: int64(keyLength + size), fill: set(size)}
}

func set(size int) *loadgen.Op { return loadgen.Set(size) }
func get(size int) *loadgen.Op { return request(isValue(size), literal("GET"), keyed("key:")) }

var incrNew = request(isOne, literal("INCR"), keyed("new:"))

// newKeyBytes is the size of a key made by incrNew, with its value.
const newKeyBytes = keyLength + 1

const (
	elements    = 100 // of a hash or sorted set
	fieldSize   = 100 // bytes of the value of a field
	elementName = "element:%02d"
)

// elementWords are the names of all elements as arguments.
var elementWords = func() (out [elements]word) {
	for i := range out {
		out[i] = literal(fmt.Sprintf(elementName, i))
	}
	return out
}()

// anyElement appends the name of a random element.
func anyElement(dst []byte, r *rand.Rand, key int) []byte {
	return elementWords[r.IntN(elements)](dst, r, key)
}

// score appends a random number of six digits.
func score(dst []byte, r *rand.Rand, _ int) []byte {
	dst = strconv.AppendInt(append(dst, "$6\r\n"...), int64(100_000+r.IntN(900_000)), 10)
	return append(dst, '\r', '\n')
}

// hashes returns a data set of hashes, and sortedSets one of sorted sets, with `elements` elements in each key.
func hashes(keys int) *dataset {
	fill := []word{literal("HSET"), keyed("hash:")}
	for _, name := range elementWords {
		fill = append(fill, name, valued(fieldSize))
	}
	perElement := len(fmt.Sprintf(elementName, 0)) + fieldSize
	return &dataset{name: "hash", keys: keys, fill: request(isInteger, fill...),
		bytes: int64(keyLength + 1 + elements*perElement)}
}

func sortedSets(keys int) *dataset {
	fill := []word{literal("ZADD"), keyed("zset:")}
	for _, name := range elementWords {
		fill = append(fill, score, name)
	}
	const scoreBytes = 8
	perElement := len(fmt.Sprintf(elementName, 0)) + scoreBytes
	return &dataset{name: "zset", keys: keys, fill: request(isInteger, fill...),
		bytes: int64(keyLength + 1 + elements*perElement)}
}

var (
	hget    = request(isValue(fieldSize), literal("HGET"), keyed("hash:"), anyElement)
	hset    = request(isInteger, literal("HSET"), keyed("hash:"), anyElement, valued(fieldSize))
	hgetall = request(hasElements(2*elements), literal("HGETALL"), keyed("hash:"))
	zscore  = request(isBulk, literal("ZSCORE"), keyed("zset:"), anyElement)
	zadd    = request(isInteger, literal("ZADD"), keyed("zset:"), score, anyElement)
	zrange  = request(hasElements(elements), literal("ZRANGE"), keyed("zset:"), literal("0"), literal("-1"))
)
