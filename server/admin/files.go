package admin

import (
	"encoding/hex"
	"encoding/json"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
)

// familyFiles is the LSM tree of a column family.
type familyFiles struct {
	Family    string     `json:"family"`
	Levels    []lsmLevel `json:"levels"`
	Sum       lsmLevel   `json:"sum"`     // total of all levels
	Pending   uint64     `json:"pending"` // bytes that compactions must still rewrite
	Memtables uint64     `json:"memtables"`
	Keys      uint64     `json:"keys"`   // estimate
	Hits      uint64     `json:"hits"`   // in the block cache
	Misses    uint64     `json:"misses"` // of the block cache
}

// lsmLevel is a level; see [engine.LevelStats].
type lsmLevel struct {
	Level       int     `json:"level"`
	Files       int64   `json:"files"`
	Compacting  int64   `json:"compacting"` // files being compacted
	Bytes       int64   `json:"bytes"`
	Score       float64 `json:"score"`
	WriteAmp    float64 `json:"write_amp"`
	Read        int64   `json:"read"` // bytes read by compactions
	Written     int64   `json:"written"`
	Compactions int64   `json:"compactions"`
}

func levelOf(l *engine.LevelStats) lsmLevel {
	return lsmLevel{l.Level, l.Files, l.Compacting, l.Bytes, l.Score, l.WriteAmp, l.Read, l.Written, l.Compactions}
}

// showFiles replies with the files of all families, for users who may read INFO rocksdb.
func (c *consoles) showFiles(w http.ResponseWriter, _ *http.Request, s *consoleSession) error {
	if err := s.allowed("INFO", "rocksdb"); err != nil {
		return err
	}
	all := []familyFiles{}
	for id := range cf.NumFamilies {
		levels, sum := c.DB.Levels(id)
		f := familyFiles{Family: id.String(), Levels: []lsmLevel{}, Sum: levelOf(&sum)}
		for i := range levels {
			f.Levels = append(f.Levels, levelOf(&levels[i]))
		}
		for name, to := range map[string]*uint64{"estimate-pending-compaction-bytes": &f.Pending,
			"cur-size-all-mem-tables": &f.Memtables, "estimate-num-keys": &f.Keys} {
			*to, _ = c.DB.FamilyIntProperty(id, "rocksdb."+name)
		}
		f.Hits, f.Misses, _ = c.DB.CacheLookups(id)
		all = append(all, f)
	}
	c.answer(w, all)
	return nil
}

// rawRecord is a record in its form on the disk.
type rawRecord struct {
	Family string `json:"family"`
	Key    string `json:"key"` // hexadecimal, as ldb writes it
	Value  string `json:"value"`
	Size   int    `json:"size"` // of the value; at most rawValue bytes of it are shown
}

const (
	rawRecords = 50
	rawValue   = 256
)

// showRaw replies with the records of a key, for users who may DUMP it.
func (c *consoles) showRaw(w http.ResponseWriter, r *http.Request, s *consoleSession) error {
	var body struct {
		Key argument
		DB  int
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxConsoleBody)).Decode(&body); err != nil || body.DB < 0 {
		return deniedError("not a key")
	}
	// Reading the type needs the right to read the key; administrators are those who may read settings.
	for _, args := range [][]string{{"TYPE", string(body.Key)}, {"CONFIG", "GET", "port"}} {
		if err := s.allowed(args...); err != nil {
			return err
		}
	}
	key := []byte(body.Key)
	ns := cf.DatabaseNamespace(body.DB)
	list := []rawRecord{}
	kind, version := "", ""
	err := c.DB.View(ns, [][]byte{key}, func(tx *engine.Tx) error {
		rec, err := tx.LoadAny(key)
		if err != nil || !rec.Exists {
			return err
		}
		value, _, err := tx.Get(cf.Metadata, rec.NSKey())
		if err != nil {
			return err
		}
		kind = rec.Type.String()
		list = append(list, rawOf(cf.Metadata, rec.NSKey(), value, len(value)))
		if rec.Type.SingleRecord() {
			return nil
		}
		version = strconv.FormatUint(rec.Version, 10)
		prefix := append([]byte(nil), tx.SubkeyPrefix(&rec)...)
		for _, id := range []cf.ID{cf.Default, cf.ZSetScore, cf.Stream} {
			it := tx.Iter(id, engine.IterOptions{Prefix: prefix, Limit: rawRecords, MaxSkip: 10_000})
			for n := 0; n < rawRecords && it.Next(); n++ {
				list = append(list, rawOf(id, append(append([]byte(nil), prefix...), it.Key()...), it.Value(), len(it.Value())))
			}
			it.Close()
		}
		return nil
	})
	if err != nil {
		return deniedError(err.Error())
	}
	dir, err := filepath.Abs(c.DB.Dir()) // ldb is called elsewhere
	if err != nil {
		return err
	}
	c.answer(w, map[string]any{"records": list, "type": kind, "version": version, "dir": dir})
	return nil
}

func rawOf(id cf.ID, key, value []byte, size int) rawRecord {
	return rawRecord{Family: id.String(), Key: "0x" + strings.ToUpper(hex.EncodeToString(key)),
		Value: "0x" + strings.ToUpper(hex.EncodeToString(value[:min(len(value), rawValue)])), Size: size}
}
