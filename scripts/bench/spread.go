package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/basaltdb/basalt/scripts/internal/loadgen"
	"github.com/basaltdb/basalt/server/resp"
)

// spreadOver is the number of collections with spreadSize elements that the spread rows read. Tests reduce it.
var spreadOver = 10_000

const (
	spreadSize = 100
	// repeatedKey is the number of the collection that the repeating and the mixed rows read.
	repeatedKey = 7
	// readsPerWrite is the number of reads for each write in a mixed row.
	readsPerWrite = 10
)

// family is a command that a cache helps, be it of replies, of records or of what follows from a collection. It makes
// three rows: the command on collections at random, where only the last caches below help; the same request all the
// time; and that mixed with writes to the collection, which outdate what is kept of it.
type family struct {
	name        string
	read, write string // KEY is the number of the collection, __rand_int__ a number below spreadOver; | is "or"
	prefix      string // of the keys
	fill        func(number string, i int) []string
	each        bool // fill makes only element i, not all elements
	// The min ratio of the spread row to redis-server, at the pipeline lengths of targetPipelines.
	target [3]float64
	ranges bool // counts in the mean over spread ranges
}

// The variants of a family, in the order of the report.
var variants = [3]string{"spread", "repeating", "mixed"}

func families() []family {
	all := func(command, prefix string, element func(i int) []string) func(string, int) []string {
		return func(number string, _ int) []string {
			args := []string{command, prefix + number}
			for i := range spreadSize {
				args = append(args, element(i)...)
			}
			return args
		}
	}
	name := func(i int) string { return "e:" + digits(i) }
	list := all("RPUSH", "sl:", func(i int) []string { return []string{name(i)} })
	hash := all("HSET", "sh:", func(i int) []string { return []string{name(i), digits(i)} })
	set := all("SADD", "ss:", func(i int) []string { return []string{name(i)} })
	zset := all("ZADD", "sz:", func(i int) []string { return []string{strconv.Itoa(i), name(i)} })
	where := rand.New(rand.NewPCG(5, 6))
	geo := all("GEOADD", "sg:", func(i int) []string {
		return []string{fmt.Sprint(2*where.Float64() - 1), fmt.Sprint(2*where.Float64() - 1), name(i)}
	})
	hll := all("PFADD", "sp:", func(i int) []string { return []string{name(i)} })
	stream := func(number string, i int) []string {
		return []string{"XADD", "sx:" + number, strconv.Itoa(i+1) + "-0", "field", digits(i)}
	}
	kilobyte := func(number string, _ int) []string {
		return []string{"SET", "sk:" + number, strings.Repeat("x", 1<<10)}
	}
	bits := func(number string, _ int) []string { return []string{"SETBIT", "sb:" + number, "80000", "1"} }
	middle := name(spreadSize / 2)
	long := strings.Repeat("y", 1<<10)

	zadd := "ZADD sz:KEY __rand_int__ " + middle
	return []family{
		{name: "GET_1K", read: "GET sk:KEY", write: "SET sk:KEY " + long, prefix: "sk:", fill: kilobyte,
			target: [3]float64{0.9, 0.9, 0.9}},
		{name: "LRANGE_100", read: "LRANGE sl:KEY 0 -1", write: "LSET sl:KEY 50 __rand_int__", prefix: "sl:", fill: list,
			ranges: true},
		{name: "HGETALL_100", read: "HGETALL sh:KEY", write: "HSET sh:KEY " + middle + " __rand_int__", prefix: "sh:",
			fill: hash, ranges: true},
		{name: "SMEMBERS_100", read: "SMEMBERS ss:KEY", write: "SADD ss:KEY x|SREM ss:KEY x", prefix: "ss:", fill: set,
			ranges: true},
		{name: "ZRANGE_100", read: "ZRANGE sz:KEY 0 -1", write: zadd, prefix: "sz:", fill: zset, ranges: true},
		{name: "ZREVRANGE_100", read: "ZREVRANGE sz:KEY 0 -1", write: zadd, prefix: "sz:", fill: zset},
		{name: "ZRANGEBYSCORE_10", read: "ZRANGEBYSCORE sz:KEY 40 49", write: zadd, prefix: "sz:", fill: zset},
		{name: "ZRANK_of_100", read: "ZRANK sz:KEY " + middle, write: zadd, prefix: "sz:", fill: zset,
			target: [3]float64{0.6, 0.6, 0.6}},
		{name: "GEOSEARCH_of_100", read: "GEOSEARCH sg:KEY FROMLONLAT 0 0 BYRADIUS 40 km", prefix: "sg:", fill: geo,
			write: "GEOADD sg:KEY 0.__rand_int__ 0.__rand_int__ " + middle},
		{name: "XRANGE_100", read: "XRANGE sx:KEY - +", write: "XADD sx:KEY MAXLEN 100 * field __rand_int__", prefix: "sx:",
			fill: stream, each: true},
		{name: "PFCOUNT_of_100", read: "PFCOUNT sp:KEY", write: "PFADD sp:KEY __rand_int__", prefix: "sp:", fill: hll},
		{name: "BITCOUNT_10K", read: "BITCOUNT sb:KEY", write: "SETBIT sb:KEY 5 0|SETBIT sb:KEY 5 1", prefix: "sb:",
			fill: bits},
	}
}

func spreadRows() []row {
	var out []row
	for _, f := range families() {
		on := func(command, key string) []string {
			return strings.Fields(strings.ReplaceAll(command, "KEY", key))
		}
		base := row{family: f.name, fill: f.make, keyspace: spreadOver, other: true}
		spread, repeating, mixed := base, base, base
		spread.args = on(f.read, "__rand_int__")
		spread.target, spread.spreadRange = f.target, f.ranges
		repeating.args = on(f.read, digits(repeatedKey))
		mixed.args = repeating.args
		for write := range strings.SplitSeq(f.write, "|") {
			mixed.writes = append(mixed.writes, on(write, digits(repeatedKey)))
		}
		for i, r := range []row{spread, repeating, mixed} {
			r.name = f.name + "_" + variants[i]
			out = append(out, r)
		}
	}
	return out
}

// make creates the collections of the family with spreadSize elements each, unless another row has done so.
func (f family) make(l *loader, _ int) error {
	elements := 1
	if f.each {
		elements = spreadSize
	}
	return l.oneEach(f.prefix, spreadOver*elements, func(i int) []string {
		return f.fill(digits(i/elements), i%elements)
	})
}

// mix runs a mixed row, which redis-benchmark cannot, and returns the requests per second.
func (s *side) mix(r row, pipeline, n int) (float64, error) {
	read := operation(r.args, r.keyspace)
	var writes []*loadgen.Op
	for _, args := range r.writes {
		writes = append(writes, operation(args, r.keyspace))
	}
	ctx, cancel := timeout()
	defer cancel()
	res, err := loadgen.Run(ctx, loadgen.Load{
		Addr: s.addr, Connections: connections, Pipeline: pipeline, Requests: int64(n),
		Next: func(rnd *rand.Rand) (*loadgen.Op, int) {
			if rnd.IntN(readsPerWrite+1) == 0 {
				return writes[rnd.IntN(len(writes))], 0
			}
			return read, 0
		},
	})
	if err != nil {
		return 0, err
	}
	return res.Rate(), nil
}

const randInt = "__rand_int__" // has the length of the digits that replace it

// operation returns a command in which each __rand_int__ becomes a random number below keyspace.
func operation(args []string, keyspace int) *loadgen.Op {
	text := resp.AppendCommand(nil, args...)
	var at []int
	for from := 0; ; {
		i := bytes.Index(text[from:], []byte(randInt))
		if i < 0 {
			break
		}
		at = append(at, from+i)
		from += i + len(randInt)
	}
	return &loadgen.Op{
		Encode: func(dst []byte, r *rand.Rand, _ int) []byte {
			begin := len(dst)
			dst = append(dst, text...)
			for _, i := range at {
				loadgen.AppendDigits(dst[:begin+i], r.IntN(keyspace))
			}
			return dst
		},
		Check: func(reply []byte, _ int) bool {
			return !bytes.HasPrefix(reply, []byte("$-1")) && !bytes.HasPrefix(reply, []byte("*0"))
		},
	}
}
