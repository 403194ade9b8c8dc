package cf_test

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine/batch"
	"github.com/basaltdb/basalt/internal/fixture"
	"github.com/basaltdb/basalt/internal/require"
)

// checker decodes records of Kvrocks and encodes them again. It learns the type of each key's version from the
// metadata records, as the records of the default family do not tell theirs.
type checker struct {
	types map[string]cf.Type // by subkey prefix
	seen  map[string]int     // how many records of each kind were checked
}

func newChecker() *checker {
	return &checker{types: map[string]cf.Type{}, seen: map[string]int{}}
}

// learn notes the type of the version that a metadata record describes.
func (c *checker) learn(key, value []byte) {
	m, _, err := cf.DecodeMeta(value)
	if err == nil && !m.Type.SingleRecord() {
		c.types[string(cf.AppendSubkeyPrefix(nil, key, false, m.Version))] = m.Type
	}
}

// put checks one record; value is nil for a delete.
func (c *checker) put(id cf.ID, key, value []byte) error {
	switch id {
	case cf.Metadata:
		return c.metadata(key, value)
	case cf.Default, cf.ZSetScore, cf.Stream:
		return c.subkey(id, key, value)
	}
	c.seen[id.String()]++
	return nil
}

func equal(what string, again, want []byte) error {
	if !bytes.Equal(again, want) {
		return fmt.Errorf("%s %x is encoded again as %x", what, want, again)
	}
	return nil
}

func (c *checker) metadata(key, value []byte) error {
	ns, user, err := cf.SplitNSKey(key, false)
	if err != nil {
		return err
	}
	if err := equal("metadata key", cf.AppendNSKey(nil, string(ns), user, false), key); err != nil || value == nil {
		return err
	}
	m, tail, err := cf.DecodeMeta(value)
	if err != nil {
		return err
	}
	again := m.Append(nil)
	switch m.Type {
	case cf.TypeList:
		head, end, err := cf.DecodeListTail(tail)
		if err != nil || end-head != m.Size {
			return fmt.Errorf("list of %d elements from %d to %d, %v", m.Size, head, end, err)
		}
		again = cf.AppendListTail(again, head, end)
	case cf.TypeStream:
		s, err := cf.DecodeStreamMeta(tail)
		if err != nil {
			return err
		}
		again = s.Append(again)
	case cf.TypeBloom:
		b, err := cf.DecodeBloomMeta(tail)
		if err != nil || b.ErrorRate <= 0 || b.ErrorRate >= 1 {
			return fmt.Errorf("bloom filter %+v, %v", b, err)
		}
		again = b.Append(again)
	case cf.TypeHyperLogLog:
		e, err := cf.DecodeHLLTail(tail)
		if err != nil {
			return err
		}
		again = cf.AppendHLLTail(again, e)
	case cf.TypeJSON:
		f, doc, err := cf.SplitJSONTail(tail)
		if err != nil {
			return err
		}
		again = append(cf.AppendJSONTail(again, f), doc...)
	case cf.TypeString:
		again = append(again, tail...)
	}
	c.seen["metadata "+m.Type.String()]++
	return equal("metadata of a "+m.Type.String(), again, value)
}

func (c *checker) subkey(id cf.ID, key, value []byte) error {
	s, err := cf.ParseSubkey(key, false)
	if err != nil {
		return err
	}
	nsKey, err := cf.AppendNSKeyOf(nil, key, false)
	if err != nil {
		return err
	}
	prefix := cf.AppendSubkeyPrefix(nil, nsKey, false, s.Version)
	if err := equal("subkey", append(slices.Clone(prefix), s.Sub...), key); err != nil {
		return err
	}
	typ, ok := c.types[string(prefix)]
	switch {
	case !ok && s.Version == 0: // LMOVE that creates its destination
		typ = cf.TypeList
	case !ok:
		return fmt.Errorf("no metadata record of version %d of %q", s.Version, s.UserKey)
	}
	c.seen[id.String()+" "+typ.String()]++
	switch id {
	case cf.ZSetScore:
		score, member, err := cf.SplitScoreSub(s.Sub)
		if err != nil || len(value) != 0 {
			return fmt.Errorf("score key with value %x, %v", value, err)
		}
		return equal("score", append(cf.AppendDouble(nil, score), member...), s.Sub)
	case cf.Stream:
		return streamRecord(s.Sub, value)
	}
	return defaultRecord(typ, s.Sub, value)
}

func defaultRecord(typ cf.Type, sub, value []byte) error {
	var again []byte
	switch typ {
	case cf.TypeList, cf.TypeSortedInt:
		n, err := cf.ParseU64Sub(sub)
		if err != nil {
			return err
		}
		again = cf.AppendU64Sub(nil, n)
	case cf.TypeZSet:
		if value == nil {
			return nil
		}
		score, err := cf.ParseDouble(value)
		if err != nil {
			return err
		}
		return equal("score", cf.AppendDouble(nil, score), value)
	case cf.TypeBitmap:
		off, err := cf.ParseBitmapSub(sub)
		if err != nil || len(value) > cf.BitmapFragment {
			return fmt.Errorf("fragment of %d bytes, %v", len(value), err)
		}
		again = cf.AppendBitmapSub(nil, off)
	case cf.TypeHyperLogLog:
		n, err := cf.ParseHLLSub(sub)
		if err != nil || len(value) != cf.HLLSegmentLen {
			return fmt.Errorf("segment of %d bytes, %v", len(value), err)
		}
		again = cf.AppendHLLSub(nil, n)
	case cf.TypeBloom:
		n, err := cf.ParseBloomSub(sub)
		if err != nil {
			return err
		}
		again = cf.AppendBloomSub(nil, n)
	case cf.TypeHash:
		return nil
	case cf.TypeSet:
		if len(value) != 0 {
			return fmt.Errorf("set member with value %x", value)
		}
		return nil
	default:
		return fmt.Errorf("subkey of a %s in the default family", typ)
	}
	return equal("subkey of a "+typ.String(), again, sub)
}

func streamRecord(sub, value []byte) error {
	s, err := cf.ParseStreamSub(sub)
	if err != nil {
		return err
	}
	var key, again []byte
	switch s.Kind {
	case cf.StreamEntry:
		key = cf.AppendStreamEntrySub(nil, s.ID)
		fields, err := cf.DecodeStreamEntry(nil, value)
		if err != nil || len(fields)%2 != 0 {
			return fmt.Errorf("entry of %d fields and values, %v", len(fields), err)
		}
		for _, f := range fields {
			again = cf.AppendStreamString(again, f)
		}
	case cf.StreamGroup:
		key = cf.AppendStreamGroupSub(nil, cf.StreamGroup, s.Group)
		g, err := cf.DecodeStreamGroup(value)
		if err != nil {
			return err
		}
		again = g.Append(nil)
	case cf.StreamConsumer:
		key = cf.AppendStreamConsumerSub(nil, s.Group, s.Consumer)
		c, err := cf.DecodeStreamConsumer(value)
		if err != nil {
			return err
		}
		again = c.Append(nil)
	case cf.StreamPending:
		key = cf.AppendStreamPendingSub(nil, s.Group, s.ID)
		if value == nil {
			break
		}
		p, err := cf.DecodeStreamPending(value)
		if err != nil {
			return err
		}
		again = p.Append(nil)
	}
	if err := equal("stream subkey", key, sub); err != nil {
		return err
	}
	return equal("stream value", again, value)
}

// want fails the test unless at least so many records of each kind were checked.
func (c *checker) want(t *testing.T, counts map[string]int) {
	t.Helper()
	for kind, n := range counts {
		if c.seen[kind] < n {
			t.Errorf("%d records of kind %q were checked, want at least %d", c.seen[kind], kind, n)
		}
	}
}

// checkBatches checks the records of batches, in order.
func checkBatches(t *testing.T, c *checker, batches []fixture.Batch) {
	t.Helper()
	// A batch puts its metadata last.
	for _, b := range batches {
		for _, r := range b.Records {
			if r.Kind == batch.Put && r.Family == cf.Metadata {
				c.learn(r.Key, r.Value)
			}
		}
	}
	for _, b := range batches {
		for _, r := range b.Records {
			var err error
			switch r.Kind {
			case batch.Put:
				err = c.put(r.Family, r.Key, append([]byte{}, r.Value...))
			case batch.Delete:
				err = c.put(r.Family, r.Key, nil)
			case batch.DeleteRange:
				succ, ok := cf.AppendSuccessor(nil, r.Key)
				if !ok || !bytes.Equal(succ, r.Value) {
					err = fmt.Errorf("range %x to %x", r.Key, r.Value)
				}
			case batch.LogData:
				_, err = cf.ParseLogData(r.Value)
			default:
				err = fmt.Errorf("record of kind %s", r.Kind)
			}
			if err != nil {
				t.Errorf("batch %d, %s %s %x: %v", b.Sequence, r.Kind, r.Family, r.Key, err)
			}
		}
	}
}

func TestReplicatedBatches(t *testing.T) {
	for _, name := range []string{fixture.PlainReplication, fixture.RSIDReplication} {
		r := fixture.LoadReplication(t, name)
		batches := slices.Clone(r.Startup)
		for _, cmd := range r.Commands {
			batches = append(batches, cmd.Batches...)
		}
		c := newChecker()
		checkBatches(t, c, batches)
		c.want(t, map[string]int{"metadata string": 6, "metadata hash": 5, "metadata list": 6, "metadata stream": 2,
			"metadata ReJSON-RL": 1, "metadata hyperloglog": 1, "default bitmap": 4, "default hyperloglog": 2,
			"zset_score zset": 5,
			"stream stream":   8, "default sortedint": 2, "pubsub": 1, "propagate": 3})
	}
}

func TestWALBatches(t *testing.T) {
	c := newChecker()
	checkBatches(t, c, fixture.WAL(t))
	c.want(t, map[string]int{"metadata bitmap": 10, "metadata MBbloom--": 8, "metadata sortedint": 4, "metadata zset": 15,
		"default MBbloom--": 8, "default list": 40, "default set": 20, "default hash": 30, "default zset": 30,
		"zset_score zset": 30,
		"stream stream":   30, "default hyperloglog": 10})
}

// TestScans checks everything that is in the files of the recorded data directory, and that it is sorted.
func TestScans(t *testing.T) {
	scans := map[cf.ID][][2][]byte{}
	for _, id := range []cf.ID{cf.Metadata, cf.Default, cf.ZSetScore, cf.Stream, cf.Propagate} {
		scans[id] = readScan(t, "testdata/scan-"+id.String()+".txt")
	}
	c := newChecker()
	for _, kv := range scans[cf.Metadata] {
		c.learn(kv[0], kv[1])
	}
	orphans := 0
	for id, scan := range scans {
		for i, kv := range scan {
			if err := c.put(id, kv[0], kv[1]); err != nil {
				// What was deleted after the COMPACT has no metadata any more.
				if s, perr := cf.ParseSubkey(kv[0], false); perr == nil && strings.Contains(err.Error(), "no metadata record") {
					orphans++
					if _, live := deletedLate[string(s.UserKey)]; live {
						continue
					}
				}
				t.Errorf("%s %x: %v", id, kv[0], err)
			}
			if i > 0 && bytes.Compare(scan[i-1][0], kv[0]) >= 0 {
				t.Errorf("%s: %x comes after %x", id, kv[0], scan[i-1][0])
			}
			if i > 0 && id == cf.ZSetScore && cf.CompareZSetScore(scan[i-1][0], kv[0]) >= 0 {
				t.Errorf("%x is not ordered before %x", scan[i-1][0], kv[0])
			}
		}
	}
	if orphans == 0 {
		t.Error("no orphaned subkey: the test of the others may be wrong")
	}
	c.want(t, map[string]int{"metadata string": 25, "metadata hash": 8, "metadata stream": 5, "metadata MBbloom--": 5,
		"metadata ReJSON-RL":   4,
		"metadata hyperloglog": 3, "default bitmap": 6, "default MBbloom--": 6, "stream stream": 20, "zset_score zset": 30,
		"propagate": 4})
}

// deletedLate are the keys that were deleted or made anew after the COMPACT of the recording.
var deletedLate = map[string]struct{}{"set:inter": {}, "wal:hash": {}}

// readScan reads the output of ldb scan --hex.
func readScan(t *testing.T, name string) (scan [][2][]byte) {
	t.Helper()
	f, err := os.Open(name)
	require.NoError(t, err)
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		k, v, ok := strings.Cut(lines.Text(), " : ")
		key, kerr := hex.DecodeString(strings.TrimPrefix(k, "0x"))
		value, verr := hex.DecodeString(strings.TrimPrefix(v, "0x"))
		if !ok || kerr != nil || verr != nil {
			t.Fatalf("%s: line %q", name, lines.Text())
		}
		scan = append(scan, [2][]byte{key, value})
	}
	require.NoError(t, lines.Err())
	return scan
}
