package compaction

import (
	"errors"
	"testing"

	"github.com/basaltdb/basalt/cf"
)

// A series of rules: chunks by their age, rules by what they refer to, index keys by the existence of their key.

const seriesNow = 100 * Grace

func seriesRecord(m cf.Meta, s cf.SeriesMeta) string {
	m.Type = cf.TypeTimeSeries
	return string(s.Append(m.Append(nil)))
}

func chunk(timestamps ...uint64) []byte {
	b := make([]byte, cf.SeriesChunkHead+len(timestamps)*cf.SampleLen)
	cf.PutSeriesChunkHead(b, len(timestamps))
	for i, ts := range timestamps {
		cf.PutSample(b[cf.SeriesChunkHead+i*cf.SampleLen:], cf.Sample{Timestamp: ts})
	}
	return b
}

func TestJudgeTimeSeries(t *testing.T) {
	nsKey := func(key string) string { return string(cf.AppendNSKey(nil, "ns", []byte(key), false)) }
	records := metadata{
		nsKey("series"):    seriesRecord(cf.Meta{Version: 7}, cf.SeriesMeta{Retention: 100, LastTimestamp: 1000}),
		nsKey("unbounded"): seriesRecord(cf.Meta{Version: 7}, cf.SeriesMeta{LastTimestamp: 1000}),
		nsKey("young"):     seriesRecord(cf.Meta{Version: 7}, cf.SeriesMeta{Retention: 100, LastTimestamp: 99}),
		nsKey("target"):    seriesRecord(cf.Meta{Version: 8}, cf.SeriesMeta{Source: []byte("series")}),
		nsKey("other"):     seriesRecord(cf.Meta{Version: 8}, cf.SeriesMeta{Source: []byte("another")}),
		nsKey("expired"):   seriesRecord(cf.Meta{Version: 8, Expire: 5}, cf.SeriesMeta{Source: []byte("series")}),
		nsKey("string"):    string(record(cf.Meta{Type: cf.TypeString}, 'v')),
		nsKey("fails"):     "fail",
	}
	series := rules{Metadata: records, Now: func() int64 { return seriesNow }}
	sub := func(key string, version uint64, sub []byte) []byte {
		return append(cf.AppendSubkeyPrefix(nil, []byte(nsKey(key)), false, version), sub...)
	}
	rule := func(target string) []byte { return append([]byte{byte(cf.SeriesRule)}, target...) }
	index := func(key string) []byte {
		return append(cf.AppendIndexPrefix(nil, "ns", []byte("label"), []byte("value")), key...)
	}
	compressed := chunk(1)
	compressed[3] = 1
	first := cf.AppendSeriesChunkSub(nil, 1)
	for _, tt := range []struct {
		what       string
		family     cf.ID
		key, value []byte
		want       Verdict
	}{
		{"chunk up to the oldest sample", cf.Default, sub("series", 7, first), chunk(1, 900), Keep},
		{"older chunk", cf.Default, sub("series", 7, first), chunk(1, 899), Drop},
		{"chunk of another version", cf.Default, sub("series", 6, first), chunk(2000), Drop},
		{"chunk without retention", cf.Default, sub("unbounded", 7, first), chunk(1), Keep},
		{"chunk of a series that is younger than the retention", cf.Default, sub("young", 7, first), chunk(0), Keep},
		{"compressed chunk", cf.Default, sub("series", 7, first), compressed, Keep},
		{"chunk without samples", cf.Default, sub("series", 7, first), chunk(), Keep},
		{"chunk of a key that is missing", cf.Default, sub("missing", 7, first), chunk(1), Drop},
		{"label", cf.Default, sub("series", 7, []byte{byte(cf.SeriesLabel), 'l'}), nil, Keep},
		{"rule", cf.Default, sub("series", 7, rule("target")), nil, Keep},
		{"rule whose target names another source", cf.Default, sub("series", 7, rule("other")), nil, Drop},
		{"rule whose target is missing", cf.Default, sub("series", 7, rule("missing")), nil, Drop},
		{"rule whose target has expired", cf.Default, sub("series", 7, rule("expired")), nil, Drop},
		{"rule whose target is a string", cf.Default, sub("series", 7, rule("string")), nil, Drop},
		{"rule whose target cannot be read", cf.Default, sub("series", 7, rule("fails")), nil, Keep},
		{"index", cf.Index, index("series"), nil, Keep},
		{"index of a missing key", cf.Index, index("missing"), nil, Drop},
		{"index of an expired key", cf.Index, index("expired"), nil, Drop},
		{"index of a key that cannot be read", cf.Index, index("fails"), nil, Keep},
		{"other index", cf.Index, []byte{2, 'n', 's', 1}, nil, Keep},
	} {
		if got := series.judge(tt.family, tt.key, tt.value); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.what, got, tt.want)
		}
	}
	if v := RuleVerdict(Lookup{Err: errors.New("I/O error")}, []byte("series"), seriesNow); v != Keep {
		t.Errorf("rule whose target could not be read: %s", v)
	}
}
