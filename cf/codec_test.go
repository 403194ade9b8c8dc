package cf

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math"
	"strings"
	"testing"
)

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestLayouts holds the encoders against bytes written out by hand from the description of the format.
func TestLayouts(t *testing.T) {
	ns := AppendNSKey(nil, DefaultNamespace, []byte("k"), false)
	tests := []struct {
		name string
		got  []byte
		want string
	}{
		{"metadata key", ns, "0b 5f5f6e616d657370616365 6b"},
		{"metadata key with slot", AppendNSKey(nil, "n", []byte("foo"), true), "01 6e 2f96 666f6f"},
		{"slot of the hash tag", AppendNSKey(nil, "n", []byte("x{foo}"), true), "01 6e 2f96 787b666f6f7d"},
		{"empty namespace and key", AppendNSKey(nil, "", nil, false), "00"},
		{"subkey prefix", AppendSubkeyPrefix(nil, ns, false, 0x0102030405060708),
			"0b 5f5f6e616d657370616365 00000001 6b 0102030405060708"},
		{"subkey prefix with slot", AppendSubkeyPrefix(nil, AppendNSKey(nil, "n", []byte("foo"), true), true, 1),
			"01 6e 2f96 00000003 666f6f 0000000000000001"},
		{"hash", (&Meta{Type: TypeHash, Expire: 0x10, Version: 0x20, Size: 3}).Append(nil),
			"82 0000000000000010 0000000000000020 0000000000000003"},
		{"narrow hash", (&Meta{Type: TypeHash, Narrow: true, Expire: 16000, Version: 0x20, Size: 3}).Append(nil),
			"02 00000010 0000000000000020 00000003"},
		{"string", (&Meta{Type: TypeString, Expire: 1}).Append(nil), "81 0000000000000001"},
		{"narrow string", (&Meta{Type: TypeString, Narrow: true}).Append(nil), "01 00000000"},
		{"+0", AppendDouble(nil, 0), "8000000000000000"},
		{"-0", AppendDouble(nil, math.Copysign(0, -1)), "7fffffffffffffff"},
		{"1", AppendDouble(nil, 1), "bff0000000000000"},
		{"-1", AppendDouble(nil, -1), "400fffffffffffff"},
		{"+inf", AppendDouble(nil, math.Inf(1)), "fff0000000000000"},
		{"-inf", AppendDouble(nil, math.Inf(-1)), "000fffffffffffff"},
		{"new list", AppendListTail(nil, ListOrigin, ListOrigin), "7fffffffffffffff 7fffffffffffffff"},
		{"bitmap fragment 0", AppendBitmapSub(nil, 1023), "30"},
		{"bitmap fragment 1024", AppendBitmapSub(nil, 1024), "31303234"},
		{"stream entry", AppendStreamEntrySub(nil, StreamID{1, 2}), "0000000000000001 0000000000000002"},
		{"stream group", AppendStreamGroupSub(nil, StreamGroup, []byte("g")), "ffffffffffffffff 01 0000000000000001 67"},
		{"stream consumer", AppendStreamConsumerSub(nil, []byte("g"), []byte("c")),
			"ffffffffffffffff 02 0000000000000001 67 0000000000000001 63"},
		{"pending entry", AppendStreamPendingSub(nil, []byte("g"), StreamID{1, 2}),
			"ffffffffffffffff 03 0000000000000001 67 0000000000000001 0000000000000002"},
		{"producer", AppendStreamProducerSub(nil, StreamProducer, []byte("p")), "ffffffffffffffff fb 0000000000000001 70"},
		{"iid", AppendStreamIIDSub(nil, []byte("p"), []byte("i")),
			"ffffffffffffffff fc 0000000000000001 70 0000000000000001 69"},
		{"place in a queue", AppendStreamQueuedSub(nil, []byte("p"), 1),
			"ffffffffffffffff fd 0000000000000001 70 0000000000000001"},
		{"idempotence", AppendStreamKindSub(nil, StreamIdempotence), "ffffffffffffffff fe"},
		{"idempotence's value", (&StreamIdempotenceValue{1, 2, 3, 4, []byte("p")}).Append(nil),
			"0000000000000001 0000000000000002 0000000000000003 0000000000000004 70"},
		{"producer's value", (&StreamProducerValue{1, 2, 3}).Append(nil),
			"0000000000000001 0000000000000002 0000000000000003"},
		{"queued iid", (&StreamQueuedValue{1, []byte("i")}).Append(nil), "0000000000000001 69"},
		{"stream string", AppendStreamString(nil, make([]byte, 200))[:2], "c801"},
		{"bloom", (&BloomMeta{1, 2, 100, 1, 128}).Append(nil), "0001 0002 00000064 bff0000000000000 00000080"},
		{"cuckoo filter", (&CuckooMeta{1, 2, 1024, 4, 20, 5, 2048}).Append(nil),
			"0001 0002 0000000000000400 04 0014 0000000000000005 00000800"},
		{"cuckoo page", AppendCuckooSub(nil, 1, 2), "0001 00000002"},
		{"JSON", AppendJSONTail(nil, JSONCBOR), "01"},
		{"HyperLogLog", AppendHLLTail(nil, HLLDense), "00"},
		{"search index", AppendSearchPrefix(nil, "n", SearchIndexMeta, []byte("i")), "01 6e 00 00000001 69"},
		{"search field", AppendSearchField(nil, "n", SearchFieldMeta, []byte("i"), []byte("f")),
			"01 6e 02 00000001 69 00000001 66"},
		{"search node", AppendSearchNode(nil, 2, []byte("u")), "0002 01 00000001 75"},
		{"search edge", AppendSearchEdge(nil, 2, []byte("u"), []byte("v")), "0002 02 00000001 75 00000001 76"},
		{"tag field", (&SearchField{Type: SearchTag, Separator: ',', NoIndex: true}).Append(nil), "03 2c 00"},
		{"numeric field", (&SearchField{Type: SearchNumeric}).Append(nil), "04"},
		{"vector field", (&SearchField{Type: SearchVector, Vector: SearchVectorParams{1, 3, 2, 500000, 16, 200, 10, 1,
			0}}).Append(nil),
			"06 01 0003 02 0007a120 0010 000000c8 0000000a bff0000000000000 0000"},
	}
	for _, tt := range tests {
		if !bytes.Equal(tt.got, unhex(t, tt.want)) {
			t.Errorf("%s: %x, want %s", tt.name, tt.got, tt.want)
		}
	}
}

func TestNarrowExpire(t *testing.T) {
	for ms, want := range map[uint64]uint64{0: 0, 1: 1, 499: 1, 999: 1, 1000: 1, 1500: 1, 1501: 2, 2000: 2, 2500: 2,
		2501:          3,
		4294967295000: 1<<32 - 1, 4294967296000: 1<<32 - 1, 1 << 62: 1<<32 - 1, math.MaxUint64: 1<<32 - 1} {
		m := Meta{Type: TypeString, Narrow: true, Expire: ms}
		got, _, err := DecodeMeta(m.Append(nil))
		if err != nil || got.Expire != want*1000 {
			t.Errorf("%d ms: %d, %v, want %d s", ms, got.Expire, err, want)
		}
	}
}

func TestLive(t *testing.T) {
	tests := []struct {
		m    Meta
		live bool
	}{
		{Meta{Type: TypeString}, true},
		{Meta{Type: TypeString, Expire: 1000}, true},
		{Meta{Type: TypeString, Expire: 999}, false},
		{Meta{Type: TypeHash}, false},
		{Meta{Type: TypeHash, Size: 1}, true},
		{Meta{Type: TypeHash, Size: 1, Expire: 999}, false},
		{Meta{Type: TypeBitmap}, false},
		{Meta{Type: TypeStream}, true},
		{Meta{Type: TypeBloom}, true},
		{Meta{Type: TypeHyperLogLog}, true},
		{Meta{Type: TypeJSON}, true},
		{Meta{Type: TypeNone}, false},
	}
	for _, tt := range tests {
		if got := tt.m.Live(1000); got != tt.live {
			t.Errorf("%+v: %v", tt.m, got)
		}
	}
}

func TestNames(t *testing.T) {
	if Default.String() != "default" || Search.String() != "search" || Index.String() != "index" ||
		ID(99).String() != "unknown" {
		t.Error("family names")
	}
	for typ, want := range map[Type]string{TypeNone: "none", TypeString: "string", TypeZSet: "zset",
		TypeSortedInt: "sortedint",
		TypeBloom:     "MBbloom--", TypeJSON: "ReJSON-RL", TypeHyperLogLog: "hyperloglog", 15: "unknown"} {
		if typ.String() != want {
			t.Errorf("type %d is %q, want %q", typ, typ, want)
		}
	}
}

func TestSlot(t *testing.T) {
	if CRC16([]byte("123456789")) != 0x31c3 { // the check value of CRC-16/XMODEM
		t.Errorf("CRC16 %#x", CRC16([]byte("123456789")))
	}
	for key, tag := range map[string]string{"a": "a", "{a}b": "a", "x{a}{b}": "a", "{}a": "{}a", "{a": "{a",
		"a}": "a}", "}{a}": "a", "{{a}}": "{a", "": ""} {
		if got := HashTag([]byte(key)); string(got) != tag {
			t.Errorf("tag of %q is %q, want %q", key, got, tag)
		}
		if Slot([]byte(key)) != CRC16([]byte(tag))%NumSlots {
			t.Errorf("slot of %q", key)
		}
	}
	if Slot([]byte("foo")) != 12182 {
		t.Errorf("slot of foo is %d", Slot([]byte("foo")))
	}
}

func TestCorrupt(t *testing.T) {
	second := func(_ any, err error) error { return err }
	third := func(_, _ any, err error) error { return err }
	tests := map[string]error{
		"metadata key without namespace": third(SplitNSKey(nil, false)),
		"metadata key cut in namespace":  third(SplitNSKey([]byte("\x02a"), false)),
		"metadata key cut in slot":       third(SplitNSKey([]byte("\x01a\x00"), true)),
		"subkey without metadata key":    second(AppendNSKeyOf(nil, nil, false)),
		"user key longer than the key":   second(ParseSubkey([]byte("\x01a\xff\xff\xff\xffkey45678"), false)),
		"short list tail":                third(DecodeListTail(make([]byte, 15))),
		"short score":                    third(SplitScoreSub(make([]byte, 7))),
		"long index":                     second(ParseU64Sub(make([]byte, 9))),
		"fragment without digits":        second(ParseBitmapSub(nil)),
		"fragment with leading zero":     second(ParseBitmapSub([]byte("01024"))),
		"fragment not at 1024":           second(ParseBitmapSub([]byte("1025"))),
		"fragment with sign":             second(ParseBitmapSub([]byte("+1024"))),
		"fragment over 64 bits":          second(ParseBitmapSub([]byte("18446744073709551616"))),
		"segment 16":                     second(ParseHLLSub([]byte("16"))),
		"no encoding":                    second(DecodeHLLTail(nil)),
		"sparse encoding":                second(DecodeHLLTail([]byte{1})),
		"short bloom tail":               second(DecodeBloomMeta(make([]byte, 19))),
		"long filter index":              second(ParseBloomSub(make([]byte, 3))),
		"short cuckoo tail":              second(DecodeCuckooMeta(make([]byte, 26))),
		"cuckoo tail of zeros":           second(DecodeCuckooMeta(make([]byte, 27))),
		"long cuckoo page":               third(ParseCuckooSub(make([]byte, 7))),
		"no JSON format":                 third(SplitJSONTail(nil)),
		"unknown JSON format":            third(SplitJSONTail([]byte{2})),
		"short stream tail":              second(DecodeStreamMeta(make([]byte, 87))),
		"short group":                    second(DecodeStreamGroup(make([]byte, 47))),
		"short consumer":                 second(DecodeStreamConsumer(make([]byte, 23))),
		"short pending entry":            second(DecodeStreamPending(make([]byte, 23))),
		"pending entry with more":        second(DecodeStreamPending(make([]byte, 25))),
		"pending entry, long name":       second(DecodeStreamPending(append(make([]byte, 23), 1))),
		"entry id of 15 bytes":           second(ParseStreamSub(make([]byte, 15))),
		"entry id of 17 bytes":           second(ParseStreamSub(make([]byte, 17))),
		"stream kind 0":                  second(ParseStreamSub(AppendStreamGroupSub(nil, 0, nil))),
		"stream kind 4":                  second(ParseStreamSub(AppendStreamGroupSub(nil, 4, nil))),
		"stream kind 250":                second(ParseStreamSub(AppendStreamGroupSub(nil, 250, nil))),
		"idempotence with more":          second(ParseStreamSub(AppendStreamGroupSub(nil, StreamIdempotence, nil))),
		"place with more":                second(ParseStreamSub(append(AppendStreamQueuedSub(nil, nil, 1), 0))),
		"short idempotence":              second(DecodeStreamIdempotence(make([]byte, 31))),
		"short producer":                 second(DecodeStreamProducer(make([]byte, 23))),
		"queue that ends before":         second(DecodeStreamProducer((&StreamProducerValue{First: 2, Next: 1}).Append(nil))),
		"short id of an iid":             second(DecodeStreamIID(make([]byte, 15))),
		"short place":                    second(DecodeStreamQueued(make([]byte, 7))),
		"group with more":                second(ParseStreamSub(append(AppendStreamGroupSub(nil, StreamGroup, nil), 0))),
		"stream string cut":              second(DecodeStreamEntry(nil, []byte("\x02a"))),
		"stream length cut":              second(DecodeStreamEntry(nil, []byte("\x80"))),
		"stream length too long":         second(DecodeStreamEntry(nil, []byte("\x81\x00a"))),
		"stream length over 64 bits":     second(DecodeStreamEntry(nil, bytes.Repeat([]byte{0xff}, 11))),
		"empty search key":               second(ParseSearchKey(nil)),
		"search key cut in namespace":    second(ParseSearchKey([]byte("\x01"))),
		"search kind 4":                  second(ParseSearchKey(AppendSearchPrefix(nil, "", 4, nil))),
		"search key without index":       second(ParseSearchKey([]byte{0, 0, 0, 0})),
		"search key without field":       second(ParseSearchKey(AppendSearchPrefix(nil, "", SearchFieldMeta, nil))),
		"search key with more": second(ParseSearchKey(append(AppendSearchPrefix(nil, "", SearchIndexMeta,
			nil), 0))),
		"graph key of 2 bytes":       second(ParseSearchGraph([]byte{0, 0})),
		"graph kind 3":               second(ParseSearchGraph([]byte{0, 0, 3, 0, 0, 0, 0})),
		"graph node with more":       second(ParseSearchGraph([]byte{0, 0, 1, 0, 0, 0, 0, 9})),
		"index with flags":           second(DecodeSearchIndex([]byte{1, 2})),
		"index on sets":              second(DecodeSearchIndex([]byte{0, 4})),
		"prefix cut":                 second(DecodeSearchPrefixes(nil, []byte{0, 0, 0, 2, 'a'})),
		"empty field record":         second(DecodeSearchField(nil)),
		"field of type 0":            second(DecodeSearchField([]byte{0})),
		"tag field with flag 2":      second(DecodeSearchField([]byte{2, ',', 2})),
		"vector field cut":           second(DecodeSearchField(append([]byte{6}, make([]byte, 27)...))),
		"empty log data":             second(ParseLogData(nil)),
		"log data of type 16":        second(ParseLogData([]byte("16"))),
		"log data that is no number": second(ParseLogData([]byte("x 1"))),
	}
	for name, err := range tests {
		if !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestLogData(t *testing.T) {
	b := func(s string) []byte { return []byte(s) }
	tests := []struct {
		got  []byte
		want string
	}{
		{LogDel, "0"},
		{LogExpire, "0 8"},
		{LogString, "1"},
		{LogHash, "2"},
		{LogListPopL, "3 3"},
		{LogListPopR, "3 4"},
		{LogListPushL, "3 6"},
		{LogListPushR, "3 7"},
		{AppendLogLSet(nil, -1), "3 0 -1"},
		{AppendLogLInsert(nil, true, b("p"), b("e")), "3 1 1 p e"},
		{AppendLogLInsert(nil, false, b("p"), b("e")), "3 1 0 p e"},
		{AppendLogLTrim(nil, 2, -6), "3 2 2 -6"},
		{AppendLogLRem(nil, -2, b("d")), "3 5 -2 d"},
		{AppendLogLMove(nil, b("src"), b("dst"), true, false), "3 12 src dst left right"},
		{LogSet, "4"},
		{LogZSet, "5"},
		{AppendLogSetBit(nil, 4294967295), "6 9 4294967295"},
		{AppendLogBitOp(nil, "OR", [][]byte{b("a"), b("b")}), "6 10 OR a b"},
		{AppendLogBitField(nil, [][]byte{b("SET"), b("u8"), b("0"), b("7")}), "6 11 SET u8 0 7"},
		{LogSortedInt, "7"},
		{LogStream, "8"},
		{LogStreamSetID, "8 XSETID"},
		{LogBloomCreate, "9 createBloomChain"},
		{LogBloomInsert, "9 insert"},
		{AppendLogCuckoo(nil, "add", b("k")), "14 add k"},
		{LogJSON, "10"},
		{LogHyperLogLog, "11"},
		{AppendLogType(nil, TypeZSet), "5"},
	}
	for _, tt := range tests {
		if string(tt.got) != tt.want {
			t.Errorf("blob %q, want %q", tt.got, tt.want)
		}
		if id, err := ParseLogData(tt.got); err != nil || id != nil {
			t.Errorf("%q parses to %q, %v", tt.want, id, err)
		}
	}
	blob := AppendLogReplicationID(nil, "0123456789ABCDEF")
	id, err := ParseLogData(blob)
	if string(blob) != "r 0123456789ABCDEF" || err != nil || string(id) != "0123456789ABCDEF" {
		t.Errorf("%q parses to %q, %v", blob, id, err)
	}
}
