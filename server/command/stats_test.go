package command

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/internal/require"
)

func TestAppendStatistics(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"", "{}"},
		{"rocksdb.b COUNT : 12\nrocksdb.a COUNT : 18446744073709551615\n",
			`{"rocksdb.a":18446744073709551615,"rocksdb.b":12}`},
		{"rocksdb.h P50 : 1.500000 P95 : 2.000000 P99 : 0.000000 P100 : 1234567.000000 COUNT : 3 SUM : 9\n",
			`{"rocksdb.h":[1.5,2.0,0.0,1234567.0,3,9]}`},
		{"rocksdb.h P50 : nan P95 : -nan P99 : 0.000000 P100 : 0.000000 COUNT : 0 SUM : 0\n",
			`{"rocksdb.h":[0.0,0.0,0.0,0.0,0,0]}`},
		{"rocksdb.odd\n", `{"rocksdb.odd":[]}`},
	} {
		if got := string(appendStatistics(nil, tt.text)); got != tt.want {
			t.Errorf("%q: %s, want %s", tt.text, got, tt.want)
		}
	}
}

func TestStats(t *testing.T) {
	db := enginetest.Open(t)
	do(t, db, "SET", "k", "v")
	_, text, _ := strings.Cut(do(t, db, "STATS"), "\r\n")
	var all map[string]any
	require.NoError(t, json.Unmarshal([]byte(text), &all))
	if n, ok := all["rocksdb.number.keys.written"].(float64); !ok || n != 1 {
		t.Errorf("%v keys were written", all["rocksdb.number.keys.written"])
	}
	if h, ok := all["rocksdb.db.write.micros"].([]any); !ok || len(h) != 6 {
		t.Errorf("the histogram of writes is %v", all["rocksdb.db.write.micros"])
	}
	if len(all) < 200 {
		t.Errorf("only %d statistics", len(all))
	}
	if got := do(t, db, "STATS", "x"); got != "-ERR wrong number of arguments for 'stats' command\r\n" {
		t.Errorf("%q", got)
	}
}
