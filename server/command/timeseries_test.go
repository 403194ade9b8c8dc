package command

import (
	"strings"
	"testing"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
)

// TestTimeSeries runs commands one after the other, with their replies in RESP2 and, where it differs, in RESP3. A line
// feed in a reply stands for the end of a line.
func TestTimeSeries(t *testing.T) {
	const (
		wrongType = "-WRONGTYPE Operation against a key holding the wrong kind of value\n"
		blocked   = "-ERR Error at upsert, update is not supported when DUPLICATE_POLICY is set to BLOCK mode\n"
		old       = "-ERR Timestamp is older than retention\n"
	)
	script := []struct{ command, resp2, resp3 string }{
		{"TS.CREATE a RETENTION 10 CHUNK_SIZE 3 LABELS room study type temperature", "+OK\n", ""},
		{"TS.GET a", "*0\n", ""},
		{"TS.RANGE a - +", "*0\n", ""},
		{"TS.MADD a 1 10 a 3 10 a 2 20 a 3 20 a 4 20 a 13 20 a 1 20 a 14 20 b 1 1", "*9\n:1\n:3\n:2\n" + blocked +
			":4\n:13\n" + old + ":14\n-ERR the key is not a TSDB key\n", ""},
		{"TS.RANGE a - +", "*3\n*2\n:4\n$2\n20\n*2\n:13\n$2\n20\n*2\n:14\n$2\n20\n",
			"*3\n*2\n:4\n,20\n*2\n:13\n,20\n*2\n:14\n,20\n"},
		{"TS.REVRANGE a - + COUNT 1", "*1\n*2\n:14\n$2\n20\n", "*1\n*2\n:14\n,20\n"},
		{"TS.GET a", "*2\n:14\n$2\n20\n", "*2\n:14\n,20\n"},
		{"TS.ADD a 14 1.5 ON_DUPLICATE sum", ":14\n", ""},
		{"TS.ADD a 3 1", old, ""},
		{"TS.ADD a 14 1", blocked, ""},
		{"TS.INFO a", "*24\n+totalSamples\n:6\n+memoryUsage\n:0\n+firstTimestamp\n:4\n+lastTimestamp\n:14\n" +
			"+retentionTime\n:10\n+chunkCount\n:2\n+chunkSize\n:3\n+chunkType\n+uncompressed\n+duplicatePolicy\n+block\n" +
			"+labels\n*2\n*2\n$4\nroom\n$5\nstudy\n*2\n$4\ntype\n$11\ntemperature\n+sourceKey\n$-1\n+rules\n*0\n",
			"%12\n+totalSamples\n:6\n+memoryUsage\n:0\n+firstTimestamp\n:4\n+lastTimestamp\n:14\n" +
				"+retentionTime\n:10\n+chunkCount\n:2\n+chunkSize\n:3\n+chunkType\n+uncompressed\n+duplicatePolicy\n+block\n" +
				"+labels\n%2\n$4\nroom\n$5\nstudy\n$4\ntype\n$11\ntemperature\n+sourceKey\n_\n+rules\n%0\n"},
		{"TS.ALTER a RETENTION 0 DUPLICATE_POLICY last LABELS room kitchen", "+OK\n", ""},
		{"TS.QUERYINDEX room=study", "*0\n", "~0\n"},
		{"TS.QUERYINDEX room=kitchen type=", "*1\n$1\na\n", "~1\n$1\na\n"},
		{"TYPE a", "+timeseries\n", ""},

		{"TS.ADD b 5 2 LABELS room kitchen", ":5\n", ""},
		{"TS.INCRBY b 3 TIMESTAMP 5", ":5\n", ""},
		{"TS.DECRBY b 1 TIMESTAMP 15", ":15\n", ""},
		{"TS.INCRBY b 1 TIMESTAMP 5", "-ERR timestamp must be equal to or higher than the maximum existing timestamp\n", ""},
		{"TS.MGET FILTER room=kitchen", "*2\n*3\n$1\na\n*0\n*2\n:14\n$4\n21.5\n*3\n$1\nb\n*0\n*2\n:15\n$1\n4\n",
			"%2\n$1\na\n*2\n%0\n*2\n:14\n,21.5\n$1\nb\n*2\n%0\n*2\n:15\n,4\n"},
		{"TS.MGET SELECTED_LABELS room x FILTER room=kitchen room!=study", "*2\n" +
			"*3\n$1\na\n*2\n*2\n$4\nroom\n$7\nkitchen\n*2\n$1\nx\n$-1\n*2\n:14\n$4\n21.5\n" +
			"*3\n$1\nb\n*2\n*2\n$4\nroom\n$7\nkitchen\n*2\n$1\nx\n$-1\n*2\n:15\n$1\n4\n",
			"%2\n$1\na\n*2\n%2\n$4\nroom\n$7\nkitchen\n$1\nx\n_\n*2\n:14\n,21.5\n" +
				"$1\nb\n*2\n%2\n$4\nroom\n$7\nkitchen\n$1\nx\n_\n*2\n:15\n,4\n"},
		{"TS.MRANGE 5 14 WITHLABELS COUNT 1 FILTER room=kitchen", "*2\n" +
			"*3\n$1\na\n*1\n*2\n$4\nroom\n$7\nkitchen\n*1\n*2\n:13\n$2\n20\n" +
			"*3\n$1\nb\n*1\n*2\n$4\nroom\n$7\nkitchen\n*1\n*2\n:5\n$1\n5\n",
			"%2\n$1\na\n*3\n%1\n$4\nroom\n$7\nkitchen\n%1\n$11\naggregators\n*0\n*1\n*2\n:13\n,20\n" +
				"$1\nb\n*3\n%1\n$4\nroom\n$7\nkitchen\n%1\n$11\naggregators\n*0\n*1\n*2\n:5\n,5\n"},
		{"TS.MREVRANGE - + AGGREGATION count 10 FILTER room=kitchen", "*2\n" +
			"*3\n$1\na\n*0\n*2\n*2\n:10\n$1\n2\n*2\n:0\n$1\n1\n*3\n$1\nb\n*0\n*2\n*2\n:10\n$1\n1\n*2\n:0\n$1\n1\n",
			"%2\n$1\na\n*3\n%0\n%1\n$11\naggregators\n*1\n$5\ncount\n*2\n*2\n:10\n,2\n*2\n:0\n,1\n" +
				"$1\nb\n*3\n%0\n%1\n$11\naggregators\n*1\n$5\ncount\n*2\n*2\n:10\n,1\n*2\n:0\n,1\n"},
		{"TS.MRANGE - + WITHLABELS AGGREGATION count 10 FILTER room=kitchen GROUPBY room REDUCE sum", "*1\n*3\n" +
			"$12\nroom=kitchen\n*3\n*2\n$4\nroom\n$7\nkitchen\n*2\n$11\n__reducer__\n$3\nsum\n*2\n$10\n__source__\n$3\na,b\n" +
			"*2\n*2\n:0\n$1\n2\n*2\n:10\n$1\n3\n",
			"%1\n$12\nroom=kitchen\n*4\n%1\n$4\nroom\n$7\nkitchen\n%1\n$8\nreducers\n*1\n$3\nsum\n" +
				"%1\n$7\nsources\n*2\n$1\na\n$1\nb\n*2\n*2\n:0\n,2\n*2\n:10\n,3\n"},
		{"TS.MREVRANGE - + AGGREGATION count 10 FILTER room=kitchen GROUPBY room REDUCE max", "*1\n*3\n" +
			"$12\nroom=kitchen\n*0\n*2\n*2\n:10\n$1\n2\n*2\n:0\n$1\n1\n", "-"},
		{"TS.MREVRANGE - + COUNT 1 FILTER room=kitchen GROUPBY room REDUCE max", "*1\n*3\n" +
			"$12\nroom=kitchen\n*0\n*1\n*2\n:15\n$1\n4\n", "-"},
		{"TS.MRANGE - + FILTER room=kitchen GROUPBY floor REDUCE max", "*0\n", "%0\n"},

		{"TS.RANGE b 0 20 AGGREGATION sum 4 ALIGN start EMPTY", "*3\n*2\n:4\n$1\n5\n*2\n:8\n$1\n0\n*2\n:12\n$1\n4\n", "-"},
		{"TS.RANGE b 1 20 AGGREGATION min 5 ALIGN end BUCKETTIMESTAMP mid EMPTY", "*3\n*2\n:7\n$1\n5\n*2\n:12\n$3\nnan\n" +
			"*2\n:17\n$1\n4\n", "-"},
		{"TS.RANGE b - + FILTER_BY_TS 15 7 FILTER_BY_VALUE 4 9", "*1\n*2\n:15\n$1\n4\n", "-"},
		{"TS.RANGE b - + FILTER_BY_VALUE 4.5 9 nonsense", "*1\n*2\n:5\n$1\n5\n", "-"},

		{"TS.ADD late 9223372036854775800 7", ":9223372036854775800\n", ""},
		{"TS.RANGE late - + AGGREGATION sum 10 BUCKETTIMESTAMP +", "*1\n*2\n:9223372036854775807\n$1\n7\n", "-"},
		{"TS.RANGE late - + AGGREGATION sum 18446744073709551615 BUCKETTIMESTAMP ~", "*1\n*2\n:9223372036854775807\n$1\n7\n",
			"-"},
		{"DEL late", ":1\n", ""},

		{"TS.CREATE d", "+OK\n", ""},
		{"TS.CREATERULE b d AGGREGATION avg 10 5", "+OK\n", ""},
		{"TS.ADD b 26 1", ":26\n", ""},
		{"TS.GET d", "*2\n:15\n$1\n4\n", "-"},
		{"TS.GET d LATEST", "*2\n:25\n$1\n1\n", "-"},
		{"TS.DEL b 26 +", ":1\n", ""},
		{"TS.GET d", "*0\n", ""},
		{"TS.DEL b - +", ":2\n", ""},
		{"TS.GET d LATEST", "*0\n", ""},
		{"TS.DELETERULE d b", "-ERR compaction rule does not exist\n", ""},
		{"TS.DELETERULE b a", "-ERR compaction rule does not exist\n", ""},
		{"TS.DELETERULE b x", "-ERR the key is not a TSDB key\n", ""},
		{"TS.DELETERULE b d", "+OK\n", ""},
		{"TS.DELETERULE b d", "-ERR compaction rule does not exist\n", ""},
		{"TS.ADD b 40 1", ":40\n", ""},
		{"TS.ADD b 60 1", ":60\n", ""},
		{"TS.GET d", "*0\n", ""},
		{"TS.CREATERULE a d AGGREGATION avg 10", "+OK\n", ""},
		{"DEL d", ":1\n", ""},
		{"TS.ADD b 100 1", ":100\n", ""},

		{"SET s v", "+OK\n", ""},
		{"TS.ADD s 1 1", wrongType, ""},
		{"TS.CREATE s", wrongType, ""},
		{"TS.MADD s 1 1 b 101 1", "*2\n" + wrongType + ":101\n", ""},
		{"TS.GET s", wrongType, ""},
		{"TS.CREATERULE b s AGGREGATION avg 10", wrongType, ""},
		{"TS.CREATE a", "-ERR key already exists\n", ""},
		{"TS.ALTER x", "-ERR key does not exist\n", ""},
		{"TS.GET x", "-ERR key does not exist\n", ""},
		{"TS.RANGE x - +", "-ERR key does not exist\n", ""},
		{"TS.DEL x - +", "-ERR key does not exist\n", ""},
		{"TS.INFO x", "-ERR the key is not a TSDB key\n", ""},
		{"TS.CREATERULE a x AGGREGATION avg 10", "-ERR the key is not a TSDB key\n", ""},
		{"TS.CREATERULE a a AGGREGATION avg 10", "-ERR the source key and destination key should be different\n", ""},
		{"TS.CREATERULE a b avg 10 0", "-ERR AGGREGATION is required\n", ""},
		{"TS.CREATERULE a b AGGREGATION avg 10 x", "-ERR unknown ALIGN parameter\n", ""},
		{"TS.CREATERULE a b AGGREGATION avg 10 1 2", "-ERR wrong number of arguments for 'ts.createrule' command\n", ""},
		{"TS.CREATE x RETENTION -1", "-ERR Couldn't parse RETENTION\n", ""},
		{"TS.CREATE x CHUNK_SIZE 0", "-ERR invalid CHUNK_SIZE\n", ""},
		{"TS.CREATE x ENCODING zip", "-ERR unknown ENCODING parameter\n", ""},
		{"TS.CREATE x DUPLICATE_POLICY any", "-ERR Unknown DUPLICATE_POLICY\n", ""},
		{"TS.CREATE x LABELS a", "-ERR Couldn't parse LABELS\n", ""},
		{"TS.ADD x -1 1", "-ERR invalid timestamp\n", ""},
		{"TS.ADD x 9223372036854775808 1", "-ERR invalid timestamp\n", ""},
		{"TS.ADD x 1 nan", "-ERR invalid value\n", ""},
		{"TS.ADD x 1 1 ON_DUPLICATE any", "-ERR Unknown DUPLICATE_POLICY\n", ""},
		{"TS.INCRBY x v", "-ERR invalid value\n", ""},
		{"TS.INCRBY x 1 TIMESTAMP x", "-ERR invalid timestamp\n", ""},
		{"TS.MADD a 1 1 a", "-ERR wrong number of arguments for 'ts.madd' command\n", ""},
		{"TS.MADD a * 1", "-ERR invalid timestamp\n", ""},
		{"EXISTS x", ":0\n", ""},
		{"TS.RANGE a x +", "-ERR wrong fromTimestamp\n", ""},
		{"TS.RANGE a - x", "-ERR wrong toTimestamp\n", ""},
		{"TS.RANGE a - + COUNT x", "-ERR Couldn't parse COUNT\n", ""},
		{"TS.RANGE a - + COUNT 0", "-ERR Invalid COUNT value\n", ""},
		{"TS.RANGE a - + FILTER_BY_VALUE 1", "-ERR Invalid min or max value\n", ""},
		{"TS.RANGE a - + AGGREGATION twa 1", "-ERR Invalid aggregator type\n", ""},
		{"TS.RANGE a - + AGGREGATION sum x", "-ERR Couldn't parse AGGREGATION\n", ""},
		{"TS.RANGE a - + AGGREGATION sum 0", "-ERR bucketDuration must be greater than zero\n", ""},
		{"TS.RANGE a - + ALIGN 1", "-ERR ALIGN parameter can only be used with AGGREGATION\n", ""},
		{"TS.RANGE a - + AGGREGATION sum 1 ALIGN x", "-ERR unknown ALIGN parameter\n", ""},
		{"TS.RANGE a - + AGGREGATION sum 1 ALIGN -",
			"-ERR start alignment can only be used with explicit start timestamp\n", ""},
		{"TS.RANGE a - + AGGREGATION sum 1 ALIGN +",
			"-ERR end alignment can only be used with explicit end timestamp\n", ""},
		{"TS.RANGE a - + BUCKETTIMESTAMP start",
			"-ERR BUCKETTIMESTAMP flag should be the 3rd or 4th flag after AGGREGATION flag\n", ""},
		{"TS.RANGE a - + AGGREGATION sum 1 BUCKETTIMESTAMP", "-ERR unknown BUCKETTIMESTAMP parameter\n", ""},
		{"TS.RANGE a - + EMPTY", "-ERR EMPTY flag should be the 3rd or 5th flag after AGGREGATION flag\n", ""},
		{"TS.MGET WITHLABELS a=b", "-ERR missing FILTER argument\n", ""},
		{"TS.MGET FILTER a!=b", "-ERR please provide at least one matcher\n", ""},
		{"TS.QUERYINDEX a", "-ERR failed parsing labels\n", ""},
		{"TS.MRANGE - + FILTER a=b GROUPBY a REDUCE twa", "-ERR Invalid reducer type\n", ""},
		{"TS.MRANGE - + FILTER a=b GROUPBY a", "-ERR wrong number of arguments for 'ts.mrange' command\n", ""},
		{"DBSIZE", ":3\n", ""},
	}
	for proto := 2; proto <= 3; proto++ {
		db := enginetest.Open(t)
		for _, step := range script {
			want := step.resp2
			if proto == 3 {
				if step.resp3 == "-" {
					doProto(t, db, proto, strings.Fields(step.command)...)
					continue
				}
				if step.resp3 != "" {
					want = step.resp3
				}
			}
			got := doProto(t, db, proto, strings.Fields(step.command)...)
			if want = strings.ReplaceAll(want, "\n", "\r\n"); got != want {
				t.Errorf("RESP%d: %s\n got %q\nwant %q", proto, step.command, got, want)
			}
		}
	}
}

// TestTimeSeriesInCluster: the index has no slots, so labels belong to no cluster.
func TestTimeSeriesInCluster(t *testing.T) {
	db := enginetest.OpenWith(t, engine.Options{Dir: t.TempDir() + "/db", Slots: true})
	for command, want := range map[string]string{
		"TS.ADD a 1 1":                ":1",
		"TS.CREATE b LABELS a b":      "-ERR Specifying LABELS is not supported in cluster mode",
		"TS.MGET FILTER a=b":          "-ERR TS.MGet is not supported in cluster mode",
		"TS.MRANGE - + FILTER a=b":    "-ERR TS.MRANGE is not supported in cluster mode",
		"TS.MREVRANGE - + FILTER a=b": "-ERR TS.MRANGE is not supported in cluster mode",
		"TS.QUERYINDEX a=b":           "-ERR TS.QueryIndex is not supported in cluster mode",
		"TS.INCRBY c 1 TIMESTAMP 1":   ":1",
		"TS.INCRBY d 1 LABELS a b":    "-ERR Specifying LABELS is not supported in cluster mode",
	} {
		if got := do(t, db, strings.Fields(command)...); got != want+"\r\n" {
			t.Errorf("%s: %q, want %q", command, got, want)
		}
	}
}
