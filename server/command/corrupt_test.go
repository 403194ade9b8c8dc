package command

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/internal/require"
)

// corruptTypes are the types whose records can violate their format, with commands that make a key k of the type, and
// commands that read its records.
var corruptTypes = []struct {
	name     string
	make     []string
	commands []string
}{
	{"hash", []string{"HSET k a 1 b 2 c 3", "HEXPIRE k 10000 FIELDS 1 a"}, []string{
		"HGET k a", "HMGET k a b", "HGETALL k", "HKEYS k", "HVALS k", "HLEN k", "HSTRLEN k a", "HEXISTS k a", "HSET k a 5",
		"HSETNX k a 5", "HDEL k a", "HINCRBY k a 1", "HINCRBYFLOAT k a 1", "HSCAN k 0", "HRANDFIELD k 2", "HTTL k FIELDS 1 a",
		"HPERSIST k FIELDS 1 a", "HEXPIRE k 5 FIELDS 1 b", "HRANGEBYLEX k - +", "DUMP k", "COPY k k2", "OBJECT DUMP k"}},
	{"list", []string{"RPUSH k a b c d"}, []string{
		"LRANGE k 0 -1", "LINDEX k 1", "LPOP k", "RPOP k 2", "LPUSH k x", "LINSERT k BEFORE b x", "LREM k 0 b", "LSET k 1 x",
		"LTRIM k 1 2", "LPOS k c", "LMOVE k k2 LEFT LEFT", "LMOVEM k k2 LEFT LEFT COUNT 3 OBO",
		"LLEN k", "SORT k ALPHA", "DUMP k", "COPY k k2", "OBJECT DUMP k"}},
	{"set", []string{"SADD k a b c"}, []string{"SMEMBERS k", "SPOP k", "SRANDMEMBER k 2", "SINTER k", "SSCAN k 0",
		"SUNIONCARD 1 k", "SDIFFCARD 1 k", "SREM k a", "SCARD k", "DUMP k", "COPY k k2"}},
	{"zset", []string{"ZADD k 1 a 2 b 3 c 4 d"}, []string{
		"ZSCORE k a", "ZMSCORE k a b", "ZADD k 5 a", "ZADD k 5 a 6 b", "ZADD k GT 1 a", "ZINCRBY k 1 a", "ZRANGE k 0 -1",
		"ZRANGE k 0 -1 REV WITHSCORES", "ZRANGEBYSCORE k 1 3", "ZRANGEBYLEX k - +", "ZRANK k b", "ZREVRANK k b", "ZREM k a",
		"ZREM k a b", "ZREMRANGEBYRANK k 0 1", "ZREMRANGEBYSCORE k 1 2", "ZREMRANGEBYLEX k - +", "ZPOPMIN k", "ZPOPMAX k 2",
		"ZCOUNT k 1 2", "ZLEXCOUNT k - +", "ZSCAN k 0", "ZRANDMEMBER k 2 WITHSCORES", "ZUNION 1 k WITHSCORES",
		"ZUNION 1 k AGGREGATE COUNT",
		"ZINTER 2 k k WITHSCORES", "ZDIFF 1 k WITHSCORES", "ZUNIONSTORE k2 1 k", "ZRANGESTORE k2 k 0 -1", "DUMP k",
		"COPY k k2", "GEOPOS k a b", "GEODIST k a b", "GEOHASH k a", "GEOSEARCH k FROMLONLAT 0 0 BYRADIUS 40000 km ASC",
		"GEOSEARCH k FROMMEMBER a BYRADIUS 40000 km", "GEOADD k 1 1 a", "GEOADD k 1 1 a 2 2 b",
		"GEOSEARCHSTORE k2 k FROMLONLAT 0 0 BYRADIUS 40000 km", "SORT k ALPHA"}},
	{"bitmap", []string{"SETBIT k 1 1", "SETBIT k 100000 1"}, []string{
		"GETBIT k 1", "SETBIT k 2 1", "BITCOUNT k", "BITPOS k 1", "BITPOS k 0", "BITOP NOT k2 k", "BITOP OR k2 k k",
		"BITFIELD k GET u8 0", "GET k", "STRLEN k", "GETRANGE k 0 -1", "APPEND k x", "DUMP k", "COPY k k2"}},
	{"sortedint", []string{"SIADD k 1 2 3"}, []string{"SIRANGE k 0 10", "SIREVRANGE k 0 10", "SIRANGEBYVALUE k 0 10",
		"SIEXISTS k 1", "SIREM k 1", "SIADD k 5", "SICARD k", "COPY k k2"}},
	{"stream", []string{"XADD k 1-1 f v", "XADD k 1-2 f v", "XGROUP CREATE k g 0",
		"XREADGROUP GROUP g c COUNT 1 STREAMS k >"}, []string{
		"XRANGE k - +", "XREVRANGE k + -", "XLEN k", "XADD k * a b", "XDEL k 1-1", "XTRIM k MAXLEN 1", "XINFO STREAM k",
		"XINFO STREAM k FULL", "XINFO GROUPS k", "XINFO CONSUMERS k g", "XREAD STREAMS k 0",
		"XREADGROUP GROUP g c STREAMS k >", "XREADGROUP GROUP g c COUNT 1 STREAMS k >", "XREADGROUP GROUP g c STREAMS k 0",
		"XACK k g 1-1", "XPENDING k g", "XPENDING k g - + 10", "XCLAIM k g d 0 1-1", "XAUTOCLAIM k g d 0 0",
		"XGROUP DELCONSUMER k g c", "XGROUP DESTROY k g", "XGROUP CREATE k h $", "XSETID k 9-9", "DUMP k", "COPY k k2"}},
	{"hyperloglog", []string{"PFADD k a b c d e f g"}, []string{"PFADD k x", "PFCOUNT k", "PFCOUNT k k",
		"PFMERGE k2 k", "COPY k k2", "DUMP k"}},
	{"bloom", []string{"BF.RESERVE k 0.01 100", "BF.ADD k a"}, []string{"BF.ADD k b", "BF.MADD k b c",
		"BF.EXISTS k a", "BF.MEXISTS k a b", "BF.INFO k", "BF.CARD k", "BF.INSERT k ITEMS x", "COPY k k2"}},
	{"cuckoo", []string{"CF.RESERVE k 100", "CF.ADD k a"}, []string{"CF.ADD k b", "CF.ADDNX k b", "CF.EXISTS k a",
		"CF.COUNT k a", "CF.DEL k a", "CF.INFO k", "CF.INSERT k ITEMS x y", "CF.SCANDUMP k 1", "COPY k k2"}},
	{"json", []string{`JSON.SET k $ {"a":[1,2],"b":"c"}`}, []string{
		"JSON.GET k", "JSON.SET k $.a 1", "JSON.DEL k $.a", "JSON.TYPE k", "JSON.ARRLEN k $.a", "JSON.OBJKEYS k",
		"JSON.NUMINCRBY k $.a[0] 1", "JSON.MGET k k2 $", "JSON.RESP k", "JSON.DEBUG MEMORY k", "JSON.MERGE k $ {}",
		"JSON.CLEAR k", "COPY k k2"}},
	{"tdigest", []string{"TDIGEST.CREATE k", "TDIGEST.ADD k 1 2 3", "TDIGEST.QUANTILE k 0.5"}, []string{
		"TDIGEST.ADD k 4", "TDIGEST.MIN k", "TDIGEST.QUANTILE k 0.1", "TDIGEST.CDF k 2", "TDIGEST.RANK k 2", "TDIGEST.INFO k",
		"TDIGEST.MERGE k2 1 k", "TDIGEST.TRIMMED_MEAN k 0.1 0.9", "TDIGEST.BYRANK k 1", "COPY k k2"}},
}

// corruptions make the records of a key corrupt. spoil gets the metadata record and the other records.
var corruptions = []struct {
	name  string
	spoil func(tx *engine.Tx, meta record, subs []record)
}{
	{"short metadata", func(tx *engine.Tx, meta record, _ []record) { tx.Put(meta.id, meta.key, meta.value[:3]) }},
	{"metadata without its tail", func(tx *engine.Tx, meta record, _ []record) {
		tx.Put(meta.id, meta.key, meta.value[:len(meta.value)-1])
	}},
	{"short values", func(tx *engine.Tx, _ record, subs []record) {
		for _, r := range subs {
			tx.Put(r.id, r.key, r.value[:min(1, len(r.value))])
		}
	}},
	{"strange values", func(tx *engine.Tx, _ record, subs []record) {
		for _, r := range subs {
			tx.Put(r.id, r.key, bytes.Repeat([]byte{0xff}, len(r.value)))
		}
	}},
	{"a strange key in each family", func(tx *engine.Tx, _ record, subs []record) {
		for _, r := range subs {
			tx.Put(r.id, append(bytes.Clone(r.prefix), 0xfe), []byte{1})
			tx.Put(r.id, append(bytes.Clone(r.prefix), '0', 'x'), []byte{1})
		}
	}},
	{"sub keys are gone", func(tx *engine.Tx, _ record, subs []record) {
		for _, r := range subs {
			tx.Delete(r.id, r.key)
		}
	}},
}

type record struct {
	id                 cf.ID
	key, value, prefix []byte
}

// records returns the metadata record and the other records of the key k.
func records(t *testing.T, db *engine.DB) (meta record, subs []record) {
	t.Helper()
	err := db.View(cf.DefaultNamespace, [][]byte{[]byte("k")}, func(tx *engine.Tx) error {
		rec, err := tx.LoadAny([]byte("k"))
		if err != nil {
			return err
		}
		value, _, err := tx.Get(cf.Metadata, rec.NSKey())
		meta = record{cf.Metadata, bytes.Clone(rec.NSKey()), bytes.Clone(value), nil}
		if err != nil || rec.Type.SingleRecord() {
			return err
		}
		prefix := bytes.Clone(tx.SubkeyPrefix(&rec))
		for _, id := range []cf.ID{cf.Default, cf.ZSetScore, cf.Stream} {
			it := tx.Iter(id, engine.IterOptions{Prefix: prefix})
			for it.Next() {
				subs = append(subs, record{id, append(bytes.Clone(prefix), it.Key()...), bytes.Clone(it.Value()), prefix})
			}
			it.Close()
		}
		return nil
	})
	require.NoError(t, err)
	return meta, subs
}

// TestCorruptRecordsAreNamed: no command panics because of a corrupt record, and an error about a corrupt record names
// the key.
func TestCorruptRecordsAreNamed(t *testing.T) {
	db := enginetest.Open(t)
	for _, typ := range corruptTypes {
		found := 0
		for _, how := range corruptions {
			for _, command := range typ.commands {
				do(t, db, "DEL", "k", "k2")
				for _, line := range typ.make {
					if reply := do(t, db, strings.Fields(line)...); strings.HasPrefix(reply, "-") {
						t.Fatalf("%s: %s", line, reply)
					}
				}
				meta, subs := records(t, db)
				require.NoError(t, db.Update(cf.DefaultNamespace, [][]byte{[]byte("k")}, func(tx *engine.Tx) error {
					how.spoil(tx, meta, subs)
					return nil
				}))
				db.DropCaches()
				reply := func() (reply string) {
					defer func() {
						if p := recover(); p != nil {
							reply = fmt.Sprint("-panic: ", p)
						}
					}()
					return do(t, db, strings.Fields(command)...)
				}()
				switch {
				case !strings.HasPrefix(reply, "-"):
				case strings.HasPrefix(reply, "-panic"):
					t.Errorf("%s, %s: %s: %s", typ.name, how.name, command, reply)
				case strings.Contains(reply, "corrupt"):
					found++
					if strings.Count(reply, `key "k"`) != 1 {
						t.Errorf("%s, %s: %s: %q does not name the key once", typ.name, how.name, command, reply)
					}
				}
				// DEL may fail for a corrupt key, but the next round must begin without the key.
				require.NoError(t, db.Update(cf.DefaultNamespace, [][]byte{[]byte("k")}, func(tx *engine.Tx) error {
					tx.Delete(cf.Metadata, meta.key)
					return nil
				}))
			}
		}
		if found < len(typ.commands)/2 {
			t.Errorf("%s: the %d commands have found only %d corrupt records", typ.name, len(typ.commands), found)
		}
	}
}
