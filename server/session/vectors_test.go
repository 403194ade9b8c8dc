package session_test

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/internal/require"
	"github.com/basaltdb/basalt/server/servertest"
)

// number returns a vector of one number, as clients write it.
func number(x float64) string {
	return string(binary.LittleEndian.AppendUint64(nil, math.Float64bits(x)))
}

// vectors writes the vectors $1 to $5 into a line.
var vectors = strings.NewReplacer("$1", number(1), "$2", number(2), "$3", number(3), "$4", number(4), "$5", number(5))

// nearest returns the keys of an index nearest to 0.
func nearest(c *servertest.Client) string {
	reply := c.Do("FT.SEARCH", "v", "*=>[KNN 9 @v $zero]", "RETURN", "1", "none", "PARAMS", "2", "zero", number(0))
	var keys []string
	for line := range strings.SplitSeq(reply, "\r\n") {
		if line != "" && !strings.ContainsRune("*:$", rune(line[0])) {
			keys = append(keys, line)
		}
	}
	return strings.Join(keys, " ")
}

const createVectors = "FT.CREATE v PREFIX 1 h: SCHEMA v VECTOR HNSW 8 TYPE FLOAT64 DIM 1 DISTANCE_METRIC L2 " +
	"EF_RUNTIME 500 none TAG" // searches of fewer keys are exact

// TestVectorWrites: after each way to change a key, searches find its vector.
func TestVectorWrites(t *testing.T) {
	h := servertest.Start(t, "redis-databases", "4")
	c := h.Dial(t)
	c.Want(createVectors, "+OK\r\n")
	for _, tt := range []struct{ name, before, do, keys string }{
		{"set", "", "HSET h:1 v $1;HSET h:2 v $2;HSET other v $3", "h:1 h:2"},
		{"changed", "HSET h:1 v $1;HSET h:2 v $2", "HSET h:1 v $3", "h:2 h:1"},
		{"of another length", "HSET h:1 v $1", "HSET h:1 v 123", ""},
		{"and right again", "HSET h:1 v 123", "HSET h:1 v $1", "h:1"},
		{"field deleted", "HSET h:1 v $1 f x", "HDEL h:1 v", ""},
		{"deleted", "HSET h:1 v $1;HSET h:2 v $2", "DEL h:1", "h:2"},
		{"expired", "HSET h:1 v $1;HSET h:2 v $2", "PEXPIREAT h:1 1", "h:2"},
		{"field expired", "HSET h:1 v $1 f x;HSET h:2 v $2", "HPEXPIREAT h:1 1 FIELDS 1 v", "h:2"},
		{"renamed", "HSET h:1 v $1;HSET h:2 v $2", "RENAME h:1 h:3", "h:3 h:2"},
		{"renamed over", "HSET h:1 v $3;HSET h:2 v $2", "RENAME h:1 h:2", "h:2"},
		{"renamed away", "HSET h:1 v $1;HSET h:2 v $2", "RENAME h:1 other", "h:2"},
		{"copied", "HSET h:1 v $1", "COPY h:1 h:2", "h:1 h:2"},
		{"copied over", "HSET h:1 v $1;HSET h:2 v $5;HSET h:3 v $2", "COPY h:1 h:2 REPLACE", "h:1 h:2 h:3"},
		{"copied onto itself", "HSET h:1 v $1", "RENAME h:1 h:1", "h:1"},
		{"moved", "HSET h:1 v $1;HSET h:2 v $2", "MOVE h:1 1", "h:2"},
		{"overwritten", "HSET h:1 v $1;HSET h:2 v $2", "SET h:1 x", "h:2"},
		{"flushed", "HSET h:1 v $1", "FLUSHDB", ""},
		{"flushed and set", "HSET h:1 v $1", "FLUSHALL;HSET h:2 v $1", "h:2"},
		{"pipeline", "", "HSET h:1 v $5;HSET h:2 v $4;HSET h:3 v $3;DEL h:2;HSET h:1 v $1", "h:1 h:3"},
		{"transaction", "HSET h:1 v $1", "MULTI;HSET h:2 v $2;HSET h:1 v $3;DEL h:2;HSET h:4 v $2;EXEC", "h:4 h:1"},
		{"discarded", "HSET h:1 v $1", "MULTI;HSET h:2 v $2;DISCARD", "h:1"},
		{"flushed in a transaction", "HSET h:1 v $1", "MULTI;HSET h:2 v $2;FLUSHDB;HSET h:3 v $3;EXEC", "h:3"},
		{"script", "HSET h:1 v $4", "EVAL redis.call('hset',KEYS[1],'v',ARGV[1])redis.call('copy','h:1','h:3') 1 h:2 $2",
			"h:2 h:1 h:3"},
		{"script that catches an error", "HSET h:1 v $4",
			"EVAL redis.pcall('hincrby',KEYS[1],'v',1)redis.call('hset',KEYS[1],'v',ARGV[1]) 1 h:1 $1", "h:1"},
		{"failed command", "HSET h:1 v $1", "HINCRBY h:1 v 1", "h:1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, db := range []string{"1", "0"} {
				c.Do("SELECT", db)
				c.Want("FLUSHDB", "+OK\r\n")
			}
			for line := range strings.SplitSeq(tt.before, ";") {
				if line != "" {
					c.Do(strings.Fields(vectors.Replace(line))...)
				}
			}
			lines := strings.Split(vectors.Replace(tt.do), ";")
			require.NoError(t, c.RoundTrip(servertest.Pipeline(lines...), len(lines)))
			if got := nearest(c); got != tt.keys {
				t.Errorf("%q, want %q", got, tt.keys)
			}
		})
	}
	c.Want("FLUSHDB", "+OK\r\n")
	c.Do("HSET", "h:1", "v", number(1))
	value := strings.SplitN(c.Do("DUMP", "h:1"), "\r\n", 2)[1]
	if got := c.Do("RESTORE", "h:2", "0", strings.TrimSuffix(value, "\r\n")); got != "+OK\r\n" {
		t.Fatal(got)
	}
	if got := nearest(c); got != "h:1 h:2" {
		t.Errorf("restored: %q", got)
	}
}

// TestVectorsWaitForEachOther: a command that changes a vector while another transaction changes the graph runs again
// when that has ended, in whatever way it was called.
func TestVectorsWaitForEachOther(t *testing.T) {
	h := servertest.Start(t)
	c, other := h.Dial(t), h.Dial(t)
	c.Want(createVectors, "+OK\r\n")
	locks := h.Sessions().Services.Indexes.GraphLocks(cf.DefaultNamespace, [][]byte{[]byte("h:1")})
	if len(locks) != 1 {
		t.Fatalf("%q", locks)
	}
	for _, tt := range []struct {
		lines, keys string
		replies     []string
	}{
		{"HSET h:1 v $1", "h:1", []string{":1\r\n"}},
		{"SET s x;HSET h:1 v $4;HSET h:2 v $2;HDEL h:2 f", "h:2 h:1", []string{"+OK\r\n", ":0\r\n", ":1\r\n", ":0\r\n"}},
		{"MULTI;INCR n;HSET h:2 v $5;EXEC", "h:1 h:2",
			[]string{"+OK\r\n", "+QUEUED\r\n", "+QUEUED\r\n", "*2\r\n:1\r\n:0\r\n"}},
		{"EVAL redis.call('incr','n')return(redis.pcall('hset',KEYS[1],'v',ARGV[1])) 1 h:3 $3", "h:3 h:1 h:2",
			[]string{":1\r\n"}},
		{"GET n;DEL h:1 h:2 h:3", "", []string{"$1\r\n2\r\n", ":3\r\n"}},
	} {
		tx := h.DB.NewTx()
		tx.Begin(cf.DefaultNamespace)
		tx.AddLock(locks[0], true)
		require.NoError(t, tx.Acquire())
		lines := strings.Split(vectors.Replace(tt.lines), ";")
		c.Send(servertest.Pipeline(lines...))
		servertest.Eventually(t, "the client waits", tx.Awaited)
		other.Want("HSET h:9 f x", ":1\r\n") // what changes no vector does not wait
		other.Want("DEL h:9", ":1\r\n")
		tx.Release()
		for _, reply := range tt.replies {
			c.Expect(reply)
		}
		if got := nearest(c); got != tt.keys {
			t.Errorf("%s: %q, want %q", tt.lines, got, tt.keys)
		}
	}
}

// TestVectorsAtOnce: clients that change vectors at once get no error, and all their vectors are found, also when the
// index is made meanwhile.
func TestVectorsAtOnce(t *testing.T) {
	h := servertest.Start(t)
	var clients sync.WaitGroup
	for i := range 4 {
		c := h.Dial(t)
		clients.Go(func() {
			for j := range 20 {
				key := fmt.Sprintf("h:%d:%d", i, j)
				set := func(key string, x float64) string { return servertest.Encode("HSET", key, "v", number(x)) }
				commands, n := set(key, float64(100*i+j))+set(key+"x", 5), 2
				switch i {
				case 1:
					commands, n = servertest.Encode("MULTI")+commands+servertest.Encode("EXEC"), 4
				case 2:
					commands += servertest.Encode("EVAL", "redis.call('hset',KEYS[1],'v',ARGV[1])", "1", key+"y", number(5))
					n = 3
				}
				if err := c.RoundTrip(commands, n); err != nil {
					t.Error(err)
				}
			}
		})
	}
	c := h.Dial(t)
	c.Want(createVectors, "+OK\r\n")
	clients.Wait()
	for i := range 4 {
		for j := range 20 {
			want := fmt.Sprintf("$%d\r\nh:%d:%d\r\n", 4+len(fmt.Sprint(j)), i, j)
			got := c.Do("FT.SEARCH", "v", "@v:[VECTOR_RANGE 0 $v]", "PARAMS", "2", "v", number(float64(100*i+j)))
			if !strings.Contains(got, want) {
				t.Errorf("%q, want %q", got, want)
			}
		}
	}
}

// TestVectorsApplied: a server that gets the write batches of another one can search its graphs, and change them.
func TestVectorsApplied(t *testing.T) {
	from, to := servertest.Start(t), servertest.Start(t)
	a, b := from.Dial(t), to.Dial(t)
	batches := enginetest.Batches(t, from.DB, func() {
		a.Want(createVectors, "+OK\r\n")
		for i := range 40 {
			a.Do("HSET", fmt.Sprint("h:", i), "v", number(float64(i)))
		}
	})
	for _, rep := range batches {
		if got := b.Do("APPLYBATCH", string(rep)); got[0] != ':' {
			t.Fatal(got)
		}
	}
	const want = "h:0 h:1 h:2 h:3 h:4 h:5 h:6 h:7 h:8"
	if got := nearest(b); got != want {
		t.Errorf("%q", got)
	}
	b.Do("HSET", "h:39", "v", number(0.5))
	if got := nearest(b); got != "h:0 h:39 h:1 h:2 h:3 h:4 h:5 h:6 h:7" {
		t.Errorf("%q", got)
	}
	b.Want("FT.DROPINDEX v", "+OK\r\n")
	enginetest.View(t, to.DB, nil, func(tx *engine.Tx) error {
		if n, err := tx.Count(cf.Search, nil, nil); n != 0 || err != nil {
			t.Errorf("%d records are left, %v", n, err)
		}
		return nil
	})
}

// TestVectorsAppliedAlike: the graphs of a server that has the index and gets the write batches of another one are
// those of the other one: changes of its own would not fit what the next batches say.
func TestVectorsAppliedAlike(t *testing.T) {
	from, to := servertest.Start(t), servertest.Start(t)
	a, b := from.Dial(t), to.Dial(t)
	rng := rand.New(rand.NewPCG(1, 2))
	batches := enginetest.Batches(t, from.DB, func() {
		a.Want(createVectors, "+OK\r\n")
		for range 300 {
			key := fmt.Sprint("h:", rng.IntN(60))
			if rng.IntN(3) == 0 {
				a.Do("DEL", key)
			} else {
				a.Do("HSET", key, "v", number(rng.Float64()))
			}
		}
	})
	for _, rep := range batches {
		if got := b.Do("APPLYBATCH", string(rep)); got[0] != ':' {
			t.Fatal(got)
		}
	}
	records := func(db *engine.DB) map[string]string {
		all := map[string]string{}
		enginetest.View(t, db, nil, func(tx *engine.Tx) error {
			it := tx.Iter(cf.Search, engine.IterOptions{})
			defer it.Close()
			for it.Next() {
				all[string(it.Key())] = string(it.Value())
			}
			return it.Err()
		})
		return all
	}
	want, got := records(from.DB), records(to.DB)
	if len(want) < 60 || !maps.Equal(want, got) {
		t.Errorf("%d records, %d in the other database", len(want), len(got))
	}
}

// TestVectorsAppliedBesideWrites: a batch of a server without the index waits for another client that changes vectors.
func TestVectorsAppliedBesideWrites(t *testing.T) {
	from, to := servertest.Start(t), servertest.Start(t)
	source, c := from.Dial(t), to.Dial(t)
	batches := enginetest.Batches(t, from.DB, func() {
		for i := range 100 {
			source.Do("HSET", fmt.Sprint("h:", i), "v", number(float64(i)))
		}
	})
	c.Want(createVectors, "+OK\r\n")
	writer := to.Dial(t)
	var other sync.WaitGroup
	other.Go(func() {
		for i := range 100 {
			writer.Do("HSET", fmt.Sprint("h:", 100+i), "v", number(float64(100+i)))
		}
	})
	for _, rep := range batches {
		if got := c.Do("APPLYBATCH", string(rep)); got[0] != ':' {
			t.Error(got)
		}
	}
	other.Wait()
	if got := c.Do("FT.SEARCH", "v", "@v:[VECTOR_RANGE 1000 $zero]", "PARAMS", "2", "zero", number(0), "LIMIT", "199", "9",
		"RETURN", "1", "none"); got != "*3\r\n:1\r\n$5\r\nh:199\r\n*0\r\n" {
		t.Errorf("%q", got)
	}
}

// TestSweptKeys: the sweep that deletes expired keys for their events also deletes their entries.
func TestSweptKeys(t *testing.T) {
	h := servertest.Start(t, "notify-keyspace-events", "KEA")
	c, sub := h.Dial(t), h.Dial(t)
	sub.Do("PSUBSCRIBE", "__keyevent@0__:*expired")
	c.Want(createVectors, "+OK\r\n")
	c.Do("HSET", "h:1", "v", number(1), "none", "a")
	c.Do("HSET", "h:2", "v", number(2), "none", "b", "f", "x")
	c.Do("HSET", "h:3", "v", number(3), "none", "c")
	c.Want("PEXPIRE h:1 1", ":1\r\n")
	c.Want("HPEXPIRE h:2 1 FIELDS 2 v none", "*2\r\n:1\r\n:1\r\n")
	servertest.Eventually(t, "the entries are gone", func() bool {
		return c.Do("FT.TAGVALS", "v", "none") == servertest.Bulk("c")
	})
	if got := nearest(c); got != "h:3 none c" { // with its tag
		t.Errorf("%q", got)
	}
}

// TestVectorDefinitions: what FT.CREATE takes and refuses, and what FT.INFO tells of it.
func TestVectorDefinitions(t *testing.T) {
	c := servertest.Start(t).Dial(t)
	const vector = "FT.CREATE i SCHEMA v VECTOR "
	for text, want := range map[string]string{
		"FLAT 6 TYPE FLOAT64 DIM 3 DISTANCE_METRIC L2": "only support HNSW algorithm for vector field",
		"HNSW":                        "no more item to parse",
		"HNSW x":                      "value is not an integer or out of range",
		"HNSW 256":                    "value is not an integer or out of range",
		"HNSW 4 TYPE FLOAT64 DIM 3":   "number of attributes is not as required",
		"HNSW 7 TYPE FLOAT64 DIM 3 M": "number of attributes must be multiple of 2",
		"HNSW 6 TYPE FLOAT32 DIM 3 DISTANCE_METRIC L2":           "unsupported vector type",
		"HNSW 6 TYPE FLOAT64 DIM 3 DISTANCE_METRIC L1":           "unsupported distance metric",
		"HNSW 6 TYPE FLOAT64 DIM 65536 DISTANCE_METRIC L2":       "value is not an integer or out of range",
		"HNSW 6 DIM 3 DISTANCE_METRIC L2":                        "VECTOR field requires TYPE to be set",
		"HNSW 6 TYPE FLOAT64 DISTANCE_METRIC L2":                 "VECTOR field requires DIM to be set",
		"HNSW 6 TYPE FLOAT64 DIM 3":                              "VECTOR field requires DISTANCE_METRIC to be set",
		"HNSW 6 TYPE FLOAT64 DIM 3 M 4 DISTANCE_METRIC L2":       "VECTOR field requires DISTANCE_METRIC to be set",
		"HNSW 8 TYPE FLOAT64 DIM 3 DISTANCE_METRIC L2 M":         "no more item to parse",
		"HNSW 8 TYPE FLOAT64 DIM 3 DISTANCE_METRIC L2 M -1":      "value is not an integer or out of range",
		"HNSW 8 TYPE FLOAT64 DIM 3 DISTANCE_METRIC L2 EPSILON x": "value is not a valid float",
	} {
		if got := c.Do(strings.Fields(vector + text)...); got != "-ERR "+want+"\r\n" {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
	info := func(rest string) string {
		return "*6\r\n+index_name\r\n$1\r\ni\r\n+index_definition\r\n*4\r\n+key_type\r\n$9\r\nReJSON-RL\r\n" +
			"+prefixes\r\n*0\r\n" +
			"+fields\r\n*1\r\n*6\r\n+identifier\r\n$1\r\nv\r\n+type\r\n$6\r\nvector\r\n+properties\r\n*16\r\n" +
			"+algorithm\r\n$4\r\nHNSW\r\n+vector_type\r\n$7\r\nFLOAT64\r\n" + rest
	}
	for text, want := range map[string]string{
		"HNSW 6 TYPE FLOAT64 DIM 3 DISTANCE_METRIC L2": "+dim\r\n:3\r\n+distance_metric\r\n$2\r\nL2\r\n+m\r\n:16\r\n" +
			"+ef_construction\r\n:200\r\n+ef_runtime\r\n:10\r\n+epsilon\r\n$4\r\n0.01\r\n",
		"hnsw 16 ef_runtime 7 ef_construction 50 m 5 noindex type float64 distance_metric cosine dim 4 initial_cap 9 " +
			"epsilon 0.5": "+dim\r\n:4\r\n+distance_metric\r\n$6\r\nCOSINE\r\n+m\r\n:5\r\n" +
			"+ef_construction\r\n:50\r\n+ef_runtime\r\n:7\r\n+epsilon\r\n$3\r\n0.5\r\n",
	} {
		c.Want("FT.CREATE i ON JSON SCHEMA v VECTOR "+text, "+OK\r\n")
		c.Want("FT.INFO i", info(want))
		c.Want("FT.DROPINDEX i", "+OK\r\n")
	}
	c.Want("FT.CREATE i SCHEMA v VECTOR HNSW 6 TYPE FLOAT64 DIM 1 DISTANCE_METRIC IP NOINDEX t TAG", "+OK\r\n")
	c.Do("HSET", "k", "v", number(2))
	if got := c.Do("FT.SEARCH", "i", "*=>[KNN 1 @v $v]", "PARAMS", "2", "v", number(1)); got !=
		"-ERR field `v` is marked as NOINDEX and cannot be used for KNN search\r\n" {
		t.Error(got)
	}
	if got := c.Do("FT.SEARCH", "i", "@v:[VECTOR_RANGE 2 $v]", "PARAMS", "2", "v", number(1)); got !=
		"*3\r\n:1\r\n$1\r\nk\r\n*2\r\n$1\r\nv\r\n$8\r\n2.000000\r\n" {
		t.Error(got)
	}
	c.Want("FT.TAGVALS i v", "*0\r\n")
}
