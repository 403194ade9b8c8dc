package transfer

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/basaltdb/basalt/engine/stream"
	"github.com/basaltdb/basalt/server/rdb"
	"github.com/basaltdb/basalt/server/rdb/rdbfile"
	"github.com/basaltdb/basalt/server/resp"
)

// ExportOptions say what to export, and how.
type ExportOptions struct {
	// Exactly one of the next two must be set: a running server, or a data directory that no server has open.
	Server *Address
	Dir    string
	Config string // configuration file of the directory, "" = defaults

	Format string // "rdb", "resp" or "jsonl"
	// Version is the version of an RDB file: 11 (Redis 7.2), or 12 (Redis 7.4), which has the expiries of hash fields.
	Version int
	DB      int    // the only database to export, < 0 = all
	Match   string // key pattern, "" = all
	Out     io.Writer
	// Progress is called with the number of keys since the last call and the approximate total; it may be nil.
	Progress func(n, total int64)
}

// ExportResult is the result of an export.
type ExportResult struct {
	Keys      int64 `json:"keys"`
	Libraries int64 `json:"libraries"`
	Gone      int64 `json:"gone"` // expired or deleted meanwhile
	// Skipped counts what was left out, by reason, with some examples.
	Skipped map[string]*Examples `json:"skipped,omitempty"`
	Seconds float64              `json:"seconds"`
}

// exporter is the state of an export.
type exporter struct {
	o      ExportOptions
	c      *resp.Conn
	w      *bufio.Writer
	file   *rdbfile.Writer // nil: another format
	result ExportResult
}

func Export(ctx context.Context, o ExportOptions) (*ExportResult, error) {
	begin := time.Now()
	e := &exporter{o: o}
	e.result.Skipped = map[string]*Examples{}
	err := e.run(ctx)
	e.result.Seconds = time.Since(begin).Seconds()
	return &e.result, err
}

func (e *exporter) run(ctx context.Context) (err error) {
	if e.o.Dir != "" {
		l, err := openExisting(ctx, e.o.Dir, e.o.Config)
		if err != nil {
			return err
		}
		defer l.close()
		e.c = l.Conn
	} else {
		if e.c, err = Dial(ctx, *e.o.Server); err != nil {
			return fmt.Errorf("%s: %w", e.o.Server, err)
		}
		defer e.c.Close()
	}
	e.w = bufio.NewWriterSize(e.o.Out, 1<<20)
	if e.o.Format == "rdb" {
		e.file = rdbfile.New(e.w, e.o.Version)
	}
	if err := e.libraries(); err != nil {
		return err
	}
	dbs, total, err := e.databases()
	if err != nil {
		return err
	}
	for _, db := range dbs {
		if err := e.database(ctx, db, len(dbs) > 1 || db > 0, total); err != nil {
			return err
		}
	}
	if e.file != nil {
		if err := e.file.End(); err != nil {
			return err
		}
	}
	return e.w.Flush()
}

// write writes to a file of another format than RDB.
func (e *exporter) write(b []byte) error {
	_, err := e.w.Write(b)
	return err
}

// libraries writes what precedes the keys: the function libraries.
func (e *exporter) libraries() error {
	var b []byte
	r, err := e.c.Do("FUNCTION", "LIST", "WITHCODE")
	if err != nil {
		return err
	}
	for i := range r.Elems {
		about := r.Elems[i].Elems
		for j := 0; j+1 < len(about); j += 2 {
			if string(about[j].Text) != "library_code" {
				continue
			}
			code := about[j+1].Text
			e.result.Libraries++
			switch e.o.Format {
			case "rdb":
				e.file.Function(code)
			case "resp":
				b = resp.AppendCommand(b, []byte("FUNCTION"), []byte("LOAD"), []byte("REPLACE"), code)
			default:
				b = appendLine(b, map[string]any{"function": string(code)})
			}
		}
	}
	return e.write(b)
}

// databases returns the databases that have keys, and the approximate number of keys.
func (e *exporter) databases() (dbs []int, total int64, err error) {
	r, err := e.c.Do("INFO", "keyspace")
	if err != nil {
		return nil, 0, err
	}
	for line := range strings.SplitSeq(string(r.Text), "\n") {
		name, rest, ok := strings.Cut(strings.TrimSpace(line), ":keys=")
		if !ok || !strings.HasPrefix(name, "db") {
			continue
		}
		db, err := strconv.Atoi(name[2:])
		if err != nil || e.o.DB >= 0 && db != e.o.DB {
			continue
		}
		count, _, _ := strings.Cut(rest, ",")
		n, _ := strconv.ParseInt(count, 10, 64)
		if n > 0 || db == 0 { // the size of a large database is an estimate
			dbs = append(dbs, db)
			total += n
		}
	}
	if e.o.DB >= 0 && len(dbs) == 0 {
		dbs = []int{e.o.DB}
	}
	return dbs, total, nil
}

// database exports the keys of one database.
func (e *exporter) database(ctx context.Context, db int, name bool, total int64) error {
	if name {
		if _, err := e.c.Do("SELECT", strconv.Itoa(db)); err != nil {
			return err
		}
		switch e.o.Format {
		case "rdb":
			e.file.Select(uint64(db))
		case "resp":
			if err := e.write(resp.AppendCommand(nil, "SELECT", strconv.Itoa(db))); err != nil {
				return err
			}
		}
	}
	for cursor := "0"; ; {
		if err := ctx.Err(); err != nil {
			return err
		}
		args := []string{"SCAN", cursor, "COUNT", "512"}
		if e.o.Match != "" {
			args = append(args, "MATCH", e.o.Match)
		}
		r, err := e.c.Do(args...)
		if err != nil {
			return err
		}
		if len(r.Elems) != 2 {
			return resp.ErrReply
		}
		if err := e.keys(db, r.Elems[1].Elems); err != nil {
			return err
		}
		if e.o.Progress != nil {
			e.o.Progress(int64(len(r.Elems[1].Elems)), total)
		}
		if cursor = string(r.Elems[0].Text); cursor == "0" {
			return nil
		}
	}
}

// dumpsAtOnce is the number of keys in a pipeline of DUMP: their values may be large.
const dumpsAtOnce = 16

func (e *exporter) keys(db int, keys []resp.Reply) error {
	for len(keys) > 0 {
		some := keys[:min(len(keys), dumpsAtOnce)]
		keys = keys[len(some):]
		for i := range some {
			key := string(some[i].Text)
			for _, command := range [...]string{"DUMP", "PEXPIRETIME", "TYPE"} {
				if err := e.c.Send(command, key); err != nil {
					return err
				}
			}
		}
		if err := e.c.Flush(); err != nil {
			return err
		}
		replies := make([]resp.Reply, 3*len(some))
		for i := range replies {
			var err error
			if replies[i], err = e.c.Receive(); err != nil {
				return err
			}
		}
		for i := range some {
			dump, expire, kind := &replies[3*i], &replies[3*i+1], &replies[3*i+2]
			if err := e.key(db, some[i].Text, dump, expire.Int, string(kind.Text)); err != nil {
				return fmt.Errorf("key %.100q: %w", some[i].Text, err)
			}
		}
	}
	return nil
}

func (e *exporter) key(db int, key []byte, dump *resp.Reply, expire int64, kind string) error {
	if dump.Null || expire == -2 || kind == "none" {
		e.result.Gone++
		return nil
	}
	expire = max(expire, 0)
	if err := dump.Err(); err != nil {
		return e.other(db, key, expire, kind, err)
	}
	body, err := rdb.Open(dump.Text)
	if err != nil {
		return err
	}
	if e.file != nil {
		if version := binary.LittleEndian.Uint16(dump.Text[len(body):]); int(version) > e.o.Version {
			addSkipped(e.result.Skipped, "expiries of the fields of a hash need --rdb-version 12, "+
				"which Redis 7.2 does not read: the hash is exported without them", key)
			v, err := rdb.Decode(body, maxValue)
			if err != nil {
				return err
			}
			v.Expires = nil
			body, _ = rdb.AppendValue(nil, v)
		}
		e.result.Keys++
		e.file.Key(key, body, expire)
		return e.file.Err()
	}
	v, err := rdb.Decode(body, maxValue)
	if err != nil {
		return err
	}
	return e.value(db, &rdb.Item{Key: key, Value: v, Expire: expire})
}

// value writes a value as commands or as a line of JSON.
func (e *exporter) value(db int, i *rdb.Item) error {
	e.result.Keys++
	if e.o.Format == "jsonl" {
		return e.write(appendLine(nil, lineOf(db, i)))
	}
	b, err := appendValue(resp.AppendCommand(nil, []byte("DEL"), i.Key), i, func(b []byte) ([]byte, error) {
		return b[:0], e.write(b)
	})
	if err == nil {
		err = e.write(b)
	}
	if err == nil && i.Expire != 0 {
		err = e.write(resp.AppendCommand(nil, []byte("PEXPIREAT"), i.Key, strconv.AppendInt(nil, i.Expire, 10)))
	}
	return err
}

// other exports a key whose type Redis lacks, if the format can represent it.
func (e *exporter) other(db int, key []byte, expire int64, kind string, dumpError error) error {
	switch {
	case e.o.Format == "rdb":
	case kind == "ReJSON-RL":
		r, err := e.c.Do("JSON.GET", string(key))
		if err != nil {
			return err
		}
		return e.value(db, &rdb.Item{Key: key, Value: &rdb.Value{Kind: rdb.JSON, String: r.Text}, Expire: expire})
	case kind == "sortedint":
		return e.sortedint(db, key, expire)
	}
	if strings.Contains(dumpError.Error(), "too large") {
		addSkipped(e.result.Skipped, dumpError.Error(), key)
		return nil
	}
	addSkipped(e.result.Skipped, fmt.Sprintf("type %s: it has no form in %s", kind, e.o.Format), key)
	return nil
}

// sortedint exports a sorted set of integers, page by page.
func (e *exporter) sortedint(db int, key []byte, expire int64) error {
	const page = "512"
	first := "-inf"
	line := lineOf(db, &rdb.Item{Key: key, Value: &rdb.Value{Kind: rdb.List}, Expire: expire})
	line["type"] = "sortedint"
	all := []any{}
	if e.o.Format == "resp" {
		if err := e.write(resp.AppendCommand(nil, []byte("DEL"), key)); err != nil {
			return err
		}
	}
	for {
		// The SIRANGE of Kvrocks leaves out the id 0.
		r, err := e.c.Do("SIRANGEBYVALUE", string(key), first, "+inf", "LIMIT", "0", page)
		if err != nil {
			return err
		}
		if len(r.Elems) == 0 {
			break
		}
		b := resp.AppendBulk(resp.AppendBulk(resp.AppendHead(nil, '*', 2+len(r.Elems)), "SIADD"), key)
		for _, id := range r.Elems {
			b = resp.AppendBulk(b, id.Text)
			all = append(all, json.Number(id.Text))
		}
		if e.o.Format == "resp" {
			if err := e.write(b); err != nil {
				return err
			}
		}
		first = "(" + string(r.Elems[len(r.Elems)-1].Text)
	}
	e.result.Keys++
	if e.o.Format == "jsonl" {
		line["value"] = all
		return e.write(appendLine(nil, line))
	}
	if expire != 0 {
		return e.write(resp.AppendCommand(nil, []byte("PEXPIREAT"), key, strconv.AppendInt(nil, expire, 10)))
	}
	return nil
}

func appendLine(dst []byte, v any) []byte {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(err) // all values can be marshaled
	}
	return append(dst, b.String()...)
}

// text returns b as a string, or {"base64": ...} if it is not UTF-8.
func text(b []byte) any {
	if utf8.Valid(b) {
		return string(b)
	}
	return map[string]string{"base64": base64.StdEncoding.EncodeToString(b)}
}

// number returns a score; infinities, which JSON lacks, as strings.
func number(f float64) any {
	if math.IsInf(f, 0) {
		return string(score(f))
	}
	return f
}

func texts(elems [][]byte) []any {
	list := make([]any, len(elems))
	for i, e := range elems {
		list[i] = text(e)
	}
	return list
}

// lineOf returns the JSON form of a key, which docs/import-export.md describes.
func lineOf(db int, i *rdb.Item) map[string]any {
	v := i.Value
	line := map[string]any{"key": text(i.Key), "type": v.Kind.String()}
	if db > 0 {
		line["db"] = db
	}
	if i.Expire != 0 {
		line["expire_ms"] = i.Expire
	}
	switch v.Kind {
	case rdb.String:
		line["value"] = text(v.String)
	case rdb.List, rdb.Set:
		line["value"] = texts(v.Elems)
	case rdb.ZSet:
		list := make([]any, len(v.Elems))
		for n, e := range v.Elems {
			list[n] = [2]any{text(e), number(v.Scores[n])}
		}
		line["value"] = list
	case rdb.Hash:
		list := make([]any, 0, len(v.Elems)/2)
		for n := 0; n < len(v.Elems); n += 2 {
			pair := []any{text(v.Elems[n]), text(v.Elems[n+1])}
			if v.Expires != nil && v.Expires[n/2] != 0 {
				pair = append(pair, v.Expires[n/2])
			}
			list = append(list, pair)
		}
		line["value"] = list
	case rdb.Stream:
		line["value"], line["groups"] = streamLine(v.Stream)
		line["last_id"] = string(stream.AppendID(nil, v.Stream.Last))
		line["entries_added"] = v.Stream.EntriesAdded
		line["max_deleted_id"] = string(stream.AppendID(nil, v.Stream.MaxDeleted))
	case rdb.JSON:
		line["type"] = "json"
		line["value"] = json.RawMessage(v.String)
	}
	return line
}

func streamLine(s *rdb.StreamValue) (entries, groups []any) {
	entries, groups = []any{}, []any{}
	for _, e := range s.Entries {
		entries = append(entries, [2]any{string(stream.AppendID(nil, e.ID)), texts(e.Fields)})
	}
	for gi := range s.Groups {
		g := &s.Groups[gi]
		consumers, pending := []any{}, []any{}
		for _, c := range g.Consumers {
			consumers = append(consumers, map[string]any{"name": text(c.Name), "seen_ms": c.Seen, "active_ms": c.Active})
		}
		for _, p := range g.Pending {
			pending = append(pending, map[string]any{"id": string(stream.AppendID(nil, p.ID)),
				"consumer":     text(g.Consumers[p.Consumer].Name),
				"delivered_ms": p.Delivered, "deliveries": p.Deliveries})
		}
		groups = append(groups, map[string]any{"name": text(g.Name), "last_id": string(stream.AppendID(nil, g.Last)),
			"entries_read": g.EntriesRead, "consumers": consumers, "pending": pending})
	}
	return entries, groups
}

func (r *ExportResult) Reasons() []string { return sortedReasons(r.Skipped) }

var errNoDatabase = errors.New("there is no database")
