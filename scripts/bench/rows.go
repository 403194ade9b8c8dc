package main

import "strings"

// keyspace is redis-benchmark's -r: random numbers are below it.
const keyspace = 100000

// row is one command to measure: a built-in test of redis-benchmark, or a
// command line in which each __rand_int__ becomes a random number of 12 digits.
type row struct {
	name string
	test string   // for -t; else
	args []string // the command line
	// fill creates the data that the command needs; nil = none. n is the number of requests that follow.
	fill func(l *loader, n int) error
	// refill: the command uses up the data, so they are created again before each measurement. Otherwise they are
	// created once on each server, for all rows that use the same data.
	refill bool
	// rangeRead: the row counts in the geometric mean over range reads.
	rangeRead bool
	// other: the row belongs to a data type beyond the five core types, and does not count in the means.
	other bool
	// alone: redis-server lacks the command, so there is no ratio.
	alone bool
	// subscribers is the number of clients that subscribe to the channel of PUBLISH, which is the first argument. The
	// measurement fails unless each of them gets every message.
	subscribers int

	// The following fields are for the rows of a family, see spread.go.
	family      string
	keyspace    int        // random numbers are below it; 0 = the constant of this name
	target      [3]float64 // min ratios; other rows have theirs in targets
	spreadRange bool       // counts in the mean over spread ranges
	// writes are command lines, one of which comes after readsPerWrite of args, on average.
	writes [][]string
}

// rnd is a random element of a collection that the loader filled.
const rnd = "e:__rand_int__"

// rows returns all rows, in the order of the report. Rows that only read share their data.
func rows() []row {
	return append([]row{
		{name: "SET", test: "set"},
		{name: "GET", test: "get", fill: stringsAt("key:")},
		{name: "INCR", test: "incr"},
		{name: "MSET_10", test: "mset"},
		custom("MGET_10", stringsAt("key:"), "MGET "+repeated("key:__rand_int__", 10)),
		custom("GETSET", stringsAt("key:"), "GETSET key:__rand_int__ "+value),
		custom("APPEND", nil, "APPEND append:__rand_int__ 0123456789"),
		custom("STRLEN", stringsAt("key:"), "STRLEN key:__rand_int__"),
		custom("SETRANGE", stringsAt("range:"), "SETRANGE range:__rand_int__ 32 0123456789"),
		custom("GETRANGE", stringsAt("key:"), "GETRANGE key:__rand_int__ 32 63"),
		custom("EXISTS", stringsAt("key:"), "EXISTS key:__rand_int__"),
		custom("EXPIRE", stringsAt("key:"), "EXPIRE key:__rand_int__ 100000"),
		custom("TTL", stringsAt("key:"), "TTL key:__rand_int__"),
		again(custom("DEL", stringsAt("del:"), "DEL del:__rand_int__")),

		{name: "HSET", test: "hset"},
		custom("HGET", sized("HSET", "h", keyspace), "HGET h "+rnd),
		custom("HMGET_10", sized("HSET", "h", keyspace), "HMGET h "+repeated(rnd, 10)),
		custom("HINCRBY", nil, "HINCRBY counts "+rnd+" 1"),
		again(custom("HDEL", sized("HSET", "hdel", keyspace), "HDEL hdel "+rnd)),
		ranges(custom("HGETALL_1000", sized("HSET", "h1000", 1000), "HGETALL h1000")),
		custom("HRANDFIELD", sized("HSET", "h", keyspace), "HRANDFIELD h"),

		{name: "LPUSH", test: "lpush"},
		{name: "RPUSH", test: "rpush"},
		again(row{name: "LPOP", test: "lpop", fill: sizedOf("RPUSH", "mylist")}),
		again(row{name: "RPOP", test: "rpop", fill: sizedOf("RPUSH", "mylist")}),
		custom("LINDEX", sized("RPUSH", "l", 1000), "LINDEX l 500"),
		custom("LLEN", sized("RPUSH", "l", 1000), "LLEN l"),
		ranges(custom("LRANGE_100", sized("RPUSH", "l", 1000), "LRANGE l 0 99")),
		ranges(custom("LRANGE_600", sized("RPUSH", "l", 1000), "LRANGE l 0 599")),

		{name: "SADD", test: "sadd"},
		again(row{name: "SPOP", test: "spop", fill: sizedOf("SADD", "myset")}),
		custom("SISMEMBER", sized("SADD", "s", keyspace), "SISMEMBER s "+rnd),
		again(custom("SREM", sized("SADD", "srem", keyspace), "SREM srem "+rnd)),
		ranges(custom("SMEMBERS_100", sized("SADD", "s100", 100), "SMEMBERS s100")),
		custom("SRANDMEMBER", sized("SADD", "s", keyspace), "SRANDMEMBER s"),

		{name: "ZADD", test: "zadd"},
		again(row{name: "ZPOPMIN", test: "zpopmin", fill: sizedOf("ZADD", "myzset")}),
		custom("ZSCORE", sized("ZADD", "z", keyspace), "ZSCORE z "+rnd),
		custom("ZRANK", sized("ZADD", "z", keyspace), "ZRANK z "+rnd),
		custom("ZCARD", sized("ZADD", "z", keyspace), "ZCARD z"),
		custom("ZINCRBY", sized("ZADD", "zincr", keyspace), "ZINCRBY zincr 1 "+rnd),
		again(custom("ZREM", sized("ZADD", "zrem", keyspace), "ZREM zrem "+rnd)),
		ranges(custom("ZRANGE_10", sized("ZADD", "z", keyspace), "ZRANGE z 0 9")),
		custom("ZRANGE_deep", sized("ZADD", "z", keyspace), "ZRANGE z 50000 50009"),
		ranges(custom("ZREVRANGE_100", sized("ZADD", "z", keyspace), "ZREVRANGE z 0 99")),
		custom("ZRANGEBYSCORE", sized("ZADD", "z", keyspace), "ZRANGEBYSCORE z 50000 60000 LIMIT 0 10"),
		custom("ZRANDMEMBER", sized("ZADD", "z", keyspace), "ZRANDMEMBER z"),

		// The bits are cleared first: setting a bit again is no change, and neither server would write anything.
		other(again(custom("SETBIT", bitsAt("bits:", "0"), "SETBIT bits:__rand_int__ 7777 1"))),
		other(custom("GETBIT", bitsAt("getbits:", "1"), "GETBIT getbits:__rand_int__ 7777")),
		other(custom("XADD", nil, "XADD stream * field "+value)),
		other(custom("XRANGE_10", stream("xrange", keyspace), "XRANGE xrange __rand_int__ + COUNT 10")),
		other(again(custom("XREADGROUP", streamOf("xreadgroup", false),
			"XREADGROUP GROUP g c COUNT 1 STREAMS xreadgroup >"))),
		other(again(custom("XACK", streamOf("xack", true), "XACK xack g __rand_int__-0"))),
		other(custom("GEOADD", nil, "GEOADD geoadd 0.__rand_int__ 0.__rand_int__ "+rnd)),
		other(custom("GEOSEARCH", points("geo", keyspace),
			"GEOSEARCH geo FROMLONLAT 0.__rand_int__ 0.__rand_int__ BYRADIUS 1300 m ASC")),
		other(custom("PFADD", nil, "PFADD hll "+rnd)),
		other(custom("PFCOUNT", sized("PFADD", "hllcount", keyspace), "PFCOUNT hllcount")),
		alone(custom("BF.ADD", bloom("bf", 0), "BF.ADD bf "+rnd)),
		alone(custom("BF.EXISTS", bloom("bfexists", keyspace), "BF.EXISTS bfexists "+rnd)),
		alone(custom("JSON.SET", nil, "JSON.SET json:__rand_int__ $ "+document)),
		alone(custom("JSON.GET", documentsAt("jsonget:"), "JSON.GET jsonget:__rand_int__")),
		alone(custom("TDIGEST.ADD", digest("td"), "TDIGEST.ADD td 0.__rand_int__")),
		alone(custom("TDIGEST.QUANTILE", digest("tdq"), "TDIGEST.QUANTILE tdq 0.5 0.99")),

		other(custom("PUBLISH", nil, "PUBLISH channel "+value)),
		heard(custom("PUBLISH_100", nil, "PUBLISH channel "+value), 100),
	}, spreadRows()...)
}

func custom(name string, fill func(*loader, int) error, line string) row {
	return row{name: name, fill: fill, args: strings.Fields(line)}
}

func other(r row) row { r.other = true; return r }
func alone(r row) row { r.other, r.alone = true, true; return r }

func heard(r row, subscribers int) row { r.other, r.subscribers = true, subscribers; return r }

func again(r row) row  { r.refill = true; return r }
func ranges(r row) row { r.rangeRead = true; return r }

func repeated(word string, n int) string {
	return strings.TrimSpace(strings.Repeat(word+" ", n))
}

// The fills. Those with a size create exactly that many elements; the ...Of ones create one for each request, for
// commands that pop.

func stringsAt(prefix string) func(*loader, int) error {
	return func(l *loader, _ int) error { return l.strings(prefix, keyspace) }
}

func sized(command, key string, size int) func(*loader, int) error {
	return func(l *loader, _ int) error { return l.collection(command, key, size) }
}

func sizedOf(command, key string) func(*loader, int) error {
	return func(l *loader, n int) error { return l.collection(command, key, n) }
}
