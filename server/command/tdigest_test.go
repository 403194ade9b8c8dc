package command

import (
	"fmt"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/internal/require"
)

// doubles returns the reply of an array of numbers, which are given as text.
func doubles(proto int, texts string) string {
	words := strings.Fields(texts)
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(words))
	for _, w := range words {
		if proto == 3 {
			fmt.Fprintf(&b, ",%s\r\n", w)
		} else {
			fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(w), w)
		}
	}
	return b.String()
}

// integers returns the reply of an array of integers, which are given as text.
func integers(words string) string {
	list := strings.Fields(words)
	return fmt.Sprintf("*%d\r\n:%s\r\n", len(list), strings.Join(list, "\r\n:"))
}

// tdigestInfo9 returns the reply of TDIGEST.INFO with its nine fields.
func tdigestInfo9(header string, n ...int) string {
	labels := []string{"Compression", "Capacity", "Merged nodes", "Unmerged nodes", "Merged weight",
		"Unmerged weight", "Observations", "Total compressions", "Memory usage"}
	for i, l := range labels {
		header += fmt.Sprintf("\r\n+%s\r\n:%d", l, n[i])
	}
	return header + "\r\n"
}

func TestTDigest(t *testing.T) {
	const (
		wrongType = "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"
		missing   = "-ERR T-Digest: key does not exist\r\n"
	)
	both := func(args, numbers string) probabilistic {
		return probabilistic{args, doubles(2, numbers), doubles(3, numbers)}
	}
	single := func(args, number string) probabilistic {
		return probabilistic{args, fmt.Sprintf("$%d\r\n%s\r\n", len(number), number), "," + number + "\r\n"}
	}
	fails := func(args, text string) probabilistic {
		return probabilistic{args, "-ERR T-Digest: " + text + "\r\n", ""}
	}
	arity := func(args, name string) probabilistic {
		return probabilistic{args, "-ERR wrong number of arguments for '" + name + "' command\r\n", ""}
	}
	script := []probabilistic{
		// The examples of the documentation.
		{"TDIGEST.CREATE t COMPRESSION 1000", "+OK\r\n", ""},
		{"TDIGEST.ADD t 1 2 2 3 3 3 4 4 4 4 5 5 5 5 5", "+OK\r\n", ""},
		both("TDIGEST.QUANTILE t 0 0.1 0.2 0.3 0.4 0.5 0.6 0.7 0.8 0.9 1", "1 2 3 3 4 4 4 5 5 5 5"),
		both("TDIGEST.QUANTILE t 1 0.5 0", "5 4 1"),
		both("TDIGEST.CDF t 0 1 2 3 4 5 6",
			"0 0.03333333333333333 0.13333333333333333 0.3 0.5333333333333333 0.8333333333333334 1"),
		{"TDIGEST.RANK t 0 1 2 3 4 5 6", integers("-1 0 2 4 8 12 15"), ""},
		{"TDIGEST.REVRANK t 0 1 2 3 4 5 6", integers("15 14 13 10 7 2 -1"), ""},
		both("TDIGEST.BYRANK t 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15", "1 2 2 3 3 3 4 4 4 4 5 5 5 5 5 inf"),
		both("TDIGEST.BYREVRANK t 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15", "5 5 5 5 5 4 4 4 4 3 3 3 2 2 1 -inf"),
		single("TDIGEST.MIN t", "1"),
		single("TDIGEST.MAX t", "5"),
		{"TDIGEST.INFO t", tdigestInfo9("*18", 1000, 1024, 0, 15, 0, 15, 15, 0, 120),
			tdigestInfo9("%9", 1000, 1024, 0, 15, 0, 15, 15, 0, 120)},
		{"TYPE t", "+TDIS-TYPE\r\n", ""},

		{"TDIGEST.CREATE s", "+OK\r\n", ""},
		{"tdigest.add s 10 20 30 40 50 60", "+OK\r\n", ""},
		{"TDIGEST.RANK s 0 10 20 30 40 50 60 70", integers("-1 0 1 2 3 4 5 6"), ""},
		{"TDIGEST.REVRANK s 0 10 20 30 40 50 60 70", integers("6 5 4 3 2 1 0 -1"), ""},
		single("TDIGEST.TRIMMED_MEAN s 0 1", "35"),
		single("TDIGEST.TRIMMED_MEAN s 0.5 0.7", "45"),

		// An empty sketch.
		{"TDIGEST.CREATE empty", "+OK\r\n", ""},
		single("TDIGEST.MIN empty", "nan"),
		single("TDIGEST.MAX empty", "nan"),
		both("TDIGEST.QUANTILE empty 0 1", "nan nan"),
		both("TDIGEST.CDF empty 0", "nan"),
		both("TDIGEST.BYRANK empty 0 1", "nan nan"),
		both("TDIGEST.BYREVRANK empty 0 1", "nan nan"),
		{"TDIGEST.RANK empty 0 1", integers("-2 -2"), ""},
		{"TDIGEST.REVRANK empty 0 1", integers("-2 -2"), ""},
		single("TDIGEST.TRIMMED_MEAN empty 0.1 0.9", "nan"),
		{"TDIGEST.INFO empty", tdigestInfo9("*18", 100, 610, 0, 0, 0, 0, 0, 0, 0),
			tdigestInfo9("%9", 100, 610, 0, 0, 0, 0, 0, 0, 0)},

		// Merging.
		{"TDIGEST.MERGE sum 2 t s", "+OK\r\n", ""},
		{"TDIGEST.INFO sum", tdigestInfo9("*18", 1000, 1024, 21, 0, 21, 0, 21, 1, 336),
			tdigestInfo9("%9", 1000, 1024, 21, 0, 21, 0, 21, 1, 336)},
		both("TDIGEST.BYRANK sum 0 14 15 20 21", "1 5 10 60 inf"),
		{"TDIGEST.MERGE sum 1 s COMPRESSION 200 OVERRIDE", "+OK\r\n", ""},
		{"TDIGEST.INFO sum", tdigestInfo9("*18", 200, 1024, 6, 0, 6, 0, 6, 1, 96),
			tdigestInfo9("%9", 200, 1024, 6, 0, 6, 0, 6, 1, 96)},
		{"TDIGEST.MERGE sum 1 sum", "+OK\r\n", ""},
		{"TDIGEST.RANK sum 30", integers("5"), ""},
		{"PEXPIRE sum 100000", ":1\r\n", ""},
		{"TDIGEST.MERGE sum 1 empty OVERRIDE", "+OK\r\n", ""},
		{"PTTL sum", ":-1\r\n", ""},
		single("TDIGEST.MAX sum", "nan"),
		{"TDIGEST.MERGE sum 2 s nosuch", missing, ""},
		{"TDIGEST.MERGE sum 1 nosuch", missing, ""},
		{"TDIGEST.MERGE nosuch 1 nosuch", missing, ""},
		fails("TDIGEST.MERGE sum x s", "error parsing numkeys"),
		fails("TDIGEST.MERGE sum 0 s", "numkeys needs to be a positive integer"),
		arity("TDIGEST.MERGE sum 2 s", "tdigest.merge"),
		arity("TDIGEST.MERGE sum 1 s COMPRESSION", "tdigest.merge"),
		arity("TDIGEST.MERGE sum 1", "tdigest.merge"),
		fails("TDIGEST.MERGE sum 1 s COMPRESSION x", "error parsing compression parameter"),
		fails("TDIGEST.MERGE sum 1 s COMPRESSION 0", "compression parameter needs to be a positive integer"),
		fails("TDIGEST.MERGE sum 1 s WHAT", "wrong keyword"),

		{"TDIGEST.RESET s", "+OK\r\n", ""},
		single("TDIGEST.MIN s", "nan"),
		{"TDIGEST.ADD s 1e300 -0.5", "+OK\r\n", ""},
		single("TDIGEST.MAX s", "1e+300"),

		// Errors.
		fails("TDIGEST.CREATE t", "key already exists"),
		fails("TDIGEST.CREATE x COMPRESSION a", "error parsing compression parameter"),
		fails("TDIGEST.CREATE x COMPRESSION 100000000000000000000", "error parsing compression parameter"),
		fails("TDIGEST.CREATE x COMPRESSION 100000000000000000", "allocation failed"),
		fails("TDIGEST.CREATE x COMPRESSION 0", "compression parameter needs to be a positive integer"),
		fails("TDIGEST.CREATE x COMPRESSION -1", "compression parameter needs to be a positive integer"),
		fails("TDIGEST.CREATE x WHAT 100", "wrong keyword"),
		arity("TDIGEST.CREATE x COMPRESSION", "tdigest.create"),
		arity("TDIGEST.CREATE x COMPRESSION 1 2", "tdigest.create"),
		{"EXISTS x", ":0\r\n", ""},
		fails("TDIGEST.ADD t 1 x 2", "error parsing val parameter"),
		fails("TDIGEST.ADD t nan", "error parsing val parameter"),
		fails("TDIGEST.ADD t 1 inf", "val parameter needs to be a finite number"),
		fails("TDIGEST.ADD t -inf", "val parameter needs to be a finite number"),
		{"TDIGEST.RANK t 100", integers("15"), ""}, // the refused commands have added nothing
		fails("TDIGEST.QUANTILE t 0.5 x", "error parsing quantile"),
		fails("TDIGEST.QUANTILE t 1.1", "quantile should be in [0,1]"),
		fails("TDIGEST.QUANTILE t -0.5", "quantile should be in [0,1]"),
		fails("TDIGEST.CDF t 1 x", "error parsing cdf"),
		fails("TDIGEST.RANK t x", "error parsing value"),
		fails("TDIGEST.REVRANK t nan", "error parsing value"),
		fails("TDIGEST.BYRANK t 0.5", "error parsing rank"),
		fails("TDIGEST.BYREVRANK t -1", "rank needs to be non negative"),
		fails("TDIGEST.TRIMMED_MEAN t x 0.5", "error parsing low_cut_percentile"),
		fails("TDIGEST.TRIMMED_MEAN t 0.5 x", "error parsing high_cut_percentile"),
		fails("TDIGEST.TRIMMED_MEAN t 10 20", "low_cut_percentile and high_cut_percentile should be in [0,1]"),
		fails("TDIGEST.TRIMMED_MEAN t 0.5 0.5", "low_cut_percentile should be lower than high_cut_percentile"),

		// Commands that work on every type.
		{"COPY t copy", ":1\r\n", ""},
		{"TDIGEST.RANK copy 3", integers("4"), ""},
		{"RENAME copy renamed", "+OK\r\n", ""},
		{"TDIGEST.RANK renamed 3", integers("4"), ""},
		{"PEXPIREAT renamed 1", ":1\r\n", ""},
		{"TDIGEST.RANK renamed 3", missing, ""},
		{"DEL t", ":1\r\n", ""},
		{"TDIGEST.CREATE t", "+OK\r\n", ""},
		single("TDIGEST.MIN t", "nan"),
		{"OBJECT ENCODING t", "$3\r\nraw\r\n", ""},
		{"SET str v", "+OK\r\n", ""},
	}
	for _, tt := range []struct{ name, args string }{
		{"add", "1"}, {"reset", ""}, {"min", ""}, {"max", ""}, {"quantile", "0"}, {"cdf", "0"}, {"rank",
			"0"}, {"revrank", "0"},
		{"byrank", "0"}, {"byrevrank", "0"}, {"trimmed_mean", "0 1"}, {"info", ""},
	} {
		script = append(script,
			probabilistic{"TDIGEST." + tt.name + " str " + tt.args, wrongType, ""},
			probabilistic{"TDIGEST." + tt.name + " nosuch " + tt.args, missing, ""},
			probabilistic{"TDIGEST." + tt.name + " nosuch" + strings.Repeat(" x", strings.Count(tt.args, " ")), "", ""})
		if last := &script[len(script)-1]; tt.args == "" {
			*last = arity(last.args+" x", "tdigest."+tt.name)
		} else {
			*last = arity(last.args, "tdigest."+tt.name)
		}
	}
	script = append(script,
		probabilistic{"TDIGEST.CREATE str", wrongType, ""},
		probabilistic{"TDIGEST.MERGE str 1 t", wrongType, ""},
		probabilistic{"TDIGEST.MERGE t 1 str", wrongType, ""},
		probabilistic{"COMMAND GETKEYS TDIGEST.MERGE a 2 b c COMPRESSION 1", "*3\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n", ""})
	talk(t, script)
}

// The error for a corrupt key names the key.
func TestTDigestCorrupt(t *testing.T) {
	db := enginetest.Open(t)
	key := []byte("broken")
	do(t, db, "TDIGEST.CREATE", "broken")
	do(t, db, "TDIGEST.ADD", "broken", "1")
	require.NoError(t, db.Update(cf.DefaultNamespace, [][]byte{key}, func(tx *engine.Tx) error {
		rec, err := tx.Load(key, cf.TypeTDigest)
		tx.Put(cf.Default, tx.Subkey(&rec, cf.AppendTDigestBufferSub(nil)), []byte("short"))
		return err
	}))
	for _, args := range []string{"TDIGEST.ADD broken 1", "TDIGEST.QUANTILE broken 0", "TDIGEST.MERGE new 1 broken",
		"TDIGEST.TRIMMED_MEAN broken 0 1"} {
		got := do(t, db, strings.Fields(args)...)
		want := "-ERR key \"broken\": corrupt record: t-digest buffer of 5 bytes, the metadata says 1 observations\r\n"
		if got != want {
			t.Errorf("%s: %q, want %q", args, got, want)
		}
	}
}
