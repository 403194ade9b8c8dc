package transfer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/internal/durable"
	"github.com/basaltdb/basalt/server/command"
	"github.com/basaltdb/basalt/server/config"
	"github.com/basaltdb/basalt/server/options"
	"github.com/basaltdb/basalt/server/rdb"
	"github.com/basaltdb/basalt/server/replication/replica"
	"github.com/basaltdb/basalt/server/resp"
)

// ImportOptions say what to import, and where to.
type ImportOptions struct {
	Path string // see Files
	// Exactly one of the next two must be set: a running server, or a new data directory.
	Server *Address
	Dir    string
	Config string // configuration file of the directory, "" = defaults

	DB          int  // the only database of an RDB file to import, < 0 = all
	SkipUnknown bool // list values of unknown modules instead of failing
	Verify      bool // read the files again and compare
	Memory      int  // max bytes for sorting
	State       string
	Restart     bool // ignore the position of an earlier run

	Stdin io.Reader
	// Progress is called with the number of bytes read or written since the last call and the total, 0 = unknown. It is
	// called by several goroutines, and may be nil.
	Progress func(stage string, n, total int64)
}

// ImportResult is the result of an import.
type ImportResult struct {
	Keys      int64 `json:"keys"`
	Commands  int64 `json:"commands"`
	Libraries int64 `json:"libraries"`
	Expired   int64 `json:"expired"`
	Empty     int64 `json:"empty"`
	OtherDB   int64 `json:"other_databases"`
	// Skipped counts what was left out, by reason, with some examples.
	Skipped  map[string]*Examples `json:"skipped,omitempty"`
	Errors   *Examples            `json:"errors,omitempty"`
	Verified int64                `json:"verified"`
	Differ   *Examples            `json:"differ,omitempty"`
	Resumed  int64                `json:"resumed_at,omitempty"`
	Warnings []string             `json:"warnings,omitempty"`
	Bytes    int64                `json:"bytes"`
	Seconds  float64              `json:"seconds"`
}

// Complete reports whether everything was imported.
func (r *ImportResult) Complete() bool {
	return len(r.Skipped) == 0 && r.Errors.count() == 0 && r.Differ.count() == 0
}

func (r *ImportResult) clone() ImportResult {
	c := *r
	c.Skipped = make(map[string]*Examples, len(r.Skipped))
	for reason, e := range r.Skipped {
		c.Skipped[reason] = &Examples{e.Count, slices.Clone(e.First)}
	}
	return c
}

// Examples is a counter that keeps the first few items.
type Examples struct {
	Count int64    `json:"count"`
	First []string `json:"first"`
}

const maxExamples = 10

// Add counts one more.
func (e *Examples) Add(format string, args ...any) {
	if e.Count++; len(e.First) < maxExamples {
		e.First = append(e.First, fmt.Sprintf(format, args...))
	}
}

// addSkipped counts a key that is left out.
func addSkipped(skipped map[string]*Examples, reason string, key []byte) {
	if skipped[reason] == nil {
		skipped[reason] = &Examples{}
	}
	skipped[reason].Add("%q", key)
}

func (e *Examples) count() int64 {
	if e == nil {
		return 0
	}
	return e.Count
}

// Limits of a value in memory: parts have about partBytes, but one element may be as large as an RDB file allows.
const (
	partBytes = 1 << 20
	maxValue  = 1 << 30
)

// importer is the state of an import.
type importer struct {
	o      ImportOptions
	result ImportResult
	now    int64
	db     uint64 // the server's selected database
	lastDB uint64 // the greatest one with keys

	// To a server.
	pipe    *Pipe
	buf     []byte
	mu      sync.Mutex // guards what replies change: errors and the state
	sent    int64
	file    int
	state   *importState
	failing error
	tables  *tables // nil = keys go by commands
	refused bool    // the server takes no table files any more

	// To a directory.
	records   *records
	libraries [][]byte
}

// Import imports. On an error, the result says how far it has come.
func Import(ctx context.Context, o ImportOptions) (*ImportResult, error) {
	begin := time.Now()
	m := &importer{o: o, now: begin.UnixMilli()}
	m.result.Skipped = map[string]*Examples{}
	m.result.Errors, m.result.Differ = &Examples{}, &Examples{}
	err := m.run(ctx)
	m.result.Seconds = time.Since(begin).Seconds()
	return &m.result, err
}

func (m *importer) run(ctx context.Context) error {
	files, err := Files(m.o.Path)
	if err != nil {
		return err
	}
	if m.o.Path == "-" && m.o.Verify {
		return errors.New("the standard input cannot be read a second time to verify it")
	}
	if m.o.Dir != "" {
		return m.toDir(ctx, files)
	}
	return m.toServer(ctx, files)
}

func (m *importer) progress(stage string, n, total int64) {
	if m.o.Progress != nil {
		m.o.Progress(stage, n, max(total, 0))
	}
}

// stopReading makes a file end with an error when the context ends, and reports progress.
type stopReading struct {
	ctx  context.Context
	r    io.Reader
	m    *importer
	size int64
	what string
}

func (s *stopReading) Read(b []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := s.r.Read(b)
	s.m.progress(s.what, int64(n), s.size)
	return n, err
}

// each reads an RDB file and calls put for every part of a key to import. offset is the end of the part.
func (m *importer) each(f *rdb.File, count bool, put func(i *rdb.Item) error, library func(source []byte) error) error {
	f.SkipModules()
	f.Preamble()
	return f.Each(partBytes, func(i *rdb.Item) error {
		switch {
		case i.Skipped != "":
			if !m.o.SkipUnknown {
				return fmt.Errorf("key %.100q: %s; --skip-unknown leaves such values out and lists them", i.Key, i.Skipped)
			}
			if count {
				addSkipped(m.result.Skipped, i.Skipped, i.Key)
			}
			return nil
		case i.Function != nil:
			if count {
				m.result.Libraries++
			}
			return library(i.Function)
		case m.o.DB >= 0 && i.DB != uint64(m.o.DB):
			if count && i.Part == 0 {
				m.result.OtherDB++
			}
			return nil
		case i.Value == nil:
			if count {
				m.result.Empty++
			}
			return nil
		case i.Expires && i.Expire <= m.now:
			if count && i.Part == 0 {
				m.result.Expired++
			}
			return nil
		}
		if m.o.DB >= 0 {
			i.DB = m.home()
		}
		if count && i.Part == 0 {
			m.result.Keys++
		}
		m.lastDB = max(m.lastDB, i.DB)
		return put(i)
	})
}

// home returns the database in the address of the server.
func (m *importer) home() uint64 {
	if m.o.Server == nil {
		return 0
	}
	return uint64(m.o.Server.DB)
}

// toDir imports into a new data directory.
func (m *importer) toDir(ctx context.Context, files []File) (err error) {
	if entries, err := os.ReadDir(m.o.Dir); err == nil && len(entries) > 0 {
		return fmt.Errorf("%s is not empty, it holds %s: only a new directory is filled; a running server takes more",
			m.o.Dir, entries[0].Name())
	}
	cfg, err := localConfig(m.o.Dir, m.o.Config)
	if err != nil {
		return err
	}
	undo, err := cfg.PrepareDir()
	if err != nil {
		return err
	}
	unfinished := filepath.Join(cfg.Dir(), config.Importing)
	defer func() {
		if e := os.RemoveAll(unfinished); err == nil {
			err = e
		}
		if err != nil {
			undo()
		}
	}()
	if err := os.Mkdir(unfinished, 0o755); err != nil {
		return err
	}
	if err := m.fill(ctx, unfinished, files); err != nil {
		return err
	}
	// A server that follows a master later must synchronise in full: no master has this history.
	if err := durable.Write(filepath.Join(cfg.Dir(), replica.OwnWrites), nil, 0o600); err != nil {
		return err
	}
	if err := os.Rename(filepath.Join(unfinished, "db"), cfg.DBDir()); err != nil {
		return err
	}
	return durable.SyncDir(cfg.Dir())
}

// fill imports into a new data directory that only this import uses.
func (m *importer) fill(ctx context.Context, dir string, files []File) (err error) {
	cfg, err := localConfig(dir, m.o.Config)
	if err != nil {
		return err
	}
	rest, err := m.preamble(ctx, options.Engine(cfg, cfg.MemoryPlan(), zap.NewNop()), dir, files)
	var more []string
	if n := int64(m.lastDB) + 1; err == nil && n > max(cfg.Int("redis-databases"), 1) {
		more = []string{"--redis-databases", strconv.FormatInt(n, 10)}
		m.result.Warnings = append(m.result.Warnings, fmt.Sprintf("database %d has keys: the server needs "+
			"redis-databases %d", m.lastDB, n))
	}
	if err != nil || len(rest) == 0 && len(m.libraries) == 0 && !m.o.Verify {
		return err
	}
	l, err := openLocal(ctx, dir, m.o.Config, false, more...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.close()) }()
	for _, source := range m.libraries {
		if _, err := l.Conn.Do("FUNCTION", "LOAD", "REPLACE", string(source)); err != nil {
			return fmt.Errorf("a library of functions: %w", err)
		}
	}
	m.state = &importState{} // not saved
	if err := m.send(ctx, l.Conn, rest); err != nil {
		return err
	}
	if m.o.Verify {
		return m.verify(ctx, l.Conn, files)
	}
	return nil
}

// source is a file from an offset on.
type source struct {
	File
	index  int
	offset int64
	rdb    bool // an RDB file, which is read from its beginning, whatever the offset
}

// preamble loads the RDB file at the beginning of files, if any, into the directory, and returns what follows it.
func (m *importer) preamble(ctx context.Context, o engine.Options, dir string, files []File) (rest []source,
	err error) {
	for i, f := range files {
		rest = append(rest, source{File: f, index: i})
	}
	first := &rest[0]
	r, err := first.open(m.o.Stdin)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if first.Kind != RDB {
		if first.Path == "-" {
			return nil, errors.New("commands from the standard input are sent to a server only")
		}
		return rest, nil
	}
	file, err := rdb.NewFile(&stopReading{ctx, r, m, first.Size, "reading"}, first.Size, maxValue)
	if err != nil {
		return nil, err
	}
	o.DisableWAL, o.Replica = true, false
	db, err := engine.Open(o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	bulk, err := db.NewBulk(filepath.Join(dir, "sorted"), m.o.Memory)
	if err != nil {
		return nil, err
	}
	defer bulk.Close()
	m.records = &records{to: bulk, bulk: bulk, slots: db.Slots()}
	defer m.records.close()
	err = m.each(file, true, func(i *rdb.Item) error { return m.records.put(i, m.now) }, func(source []byte) error {
		m.libraries = append(m.libraries, append([]byte(nil), source...))
		return nil
	})
	m.result.Bytes = file.Offset()
	if err != nil {
		return nil, err
	}
	if err := bulk.Finish(func(n int) { m.progress("writing", int64(n), 0) }); err != nil {
		return nil, err
	}
	if first.offset = file.Offset(); first.offset == first.Size || first.Size < 0 {
		rest = rest[1:]
	} else if head := make([]byte, 1); true {
		if _, err := io.ReadFull(file.Rest(), head); err != nil || head[0] != '*' && head[0] != '#' {
			return nil, fmt.Errorf("%s: what follows the RDB file at byte %d is no command", first.Path, first.offset)
		}
	}
	return rest, nil
}

// toServer imports into a running server.
func (m *importer) toServer(ctx context.Context, files []File) error {
	// An interrupted import waits for the replies to what it has sent, so that it knows where to continue.
	c, err := Dial(context.WithoutCancel(ctx), *m.o.Server)
	if err != nil {
		return fmt.Errorf("%s: %w", m.o.Server, err)
	}
	defer c.Close()
	m.db = m.home()
	if m.state, err = loadState(&m.o, files); err != nil {
		return err
	}
	var rest []source
	for i, f := range files {
		s := source{File: f, index: i, rdb: f.Kind == RDB}
		switch {
		case i < m.state.File:
			continue
		case i == m.state.File:
			s.offset = m.state.Offset
			m.result.Resumed = s.offset
		}
		rest = append(rest, s)
	}
	if m.state.Unsure > 0 {
		m.result.Warnings = append(m.result.Warnings, fmt.Sprintf("the last run was cut off: up to %d commands "+
			"from byte %d on may have been run already, and are run again", m.state.Unsure, m.state.Offset))
	}
	if err := m.send(ctx, c, rest); err != nil {
		return errors.Join(err, m.state.save())
	}
	if err := m.state.remove(); err != nil {
		return err
	}
	if m.o.Verify {
		return m.verify(ctx, c, files)
	}
	return nil
}

// send sends the content of the files.
func (m *importer) send(ctx context.Context, c *resp.Conn, files []source) (err error) {
	m.pipe = NewPipe(c)
	for _, f := range files {
		if err = m.sendFile(ctx, &f); errors.Is(err, errTablesRefused) {
			err = m.sendFile(ctx, &f)
		}
		if err != nil {
			break
		}
	}
	interrupted := ctx.Err() != nil
	if e := m.pipe.Close(); err == nil || !interrupted && e != nil {
		err = e
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err == nil || m.state.Offset == m.sent { // every command was answered
		m.state.Unsure = 0
	}
	if m.failing != nil {
		return m.failing
	}
	return err
}

func (m *importer) sendFile(ctx context.Context, s *source) error {
	m.file = s.index
	r, err := s.open(m.o.Stdin)
	if err != nil {
		return err
	}
	defer r.Close()
	in := &stopReading{ctx, r, m, s.Size, "importing"}
	var rest io.Reader = in
	offset := s.offset
	if s.Kind == RDB && (s.rdb || s.Path == "-") {
		file, err := rdb.NewFile(in, s.Size, maxValue)
		if err == nil {
			err = m.sendKeys(ctx, s, file)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", s.Path, err)
		}
		rest, offset = file.Rest(), file.Offset()
		m.result.Bytes += offset
		if s.offset > offset { // within the commands that follow
			if _, err := io.CopyN(io.Discard, rest, s.offset-offset); err != nil {
				return err
			}
			offset = s.offset
		}
	} else if offset > 0 {
		if _, err := r.(io.Seeker).Seek(offset, io.SeekStart); err != nil {
			return err
		}
	}
	m.mu.Lock()
	goesOn, db := m.state.File == s.index && s.offset > 0 && offset == s.offset, m.state.DB
	m.mu.Unlock()
	if goesOn && db != m.db { // database 0, too: the address may name another one
		if err := m.selectDB(db, offset); err != nil {
			return err
		}
	}
	return m.sendCommands(s, newCommandReader(rest, offset), s.Kind == RDB)
}

// sendKeys sends the keys of an RDB file. When the server takes no more table files, the error is errTablesRefused, and
// calling it again goes on with commands.
func (m *importer) sendKeys(ctx context.Context, s *source, file *rdb.File) (err error) {
	before := m.result.clone()
	if m.o.Server != nil && !m.refused && s.Size >= tablesFrom {
		if m.tables, err = m.newTables(ctx); err != nil {
			return err
		}
	}
	t := m.tables
	begin := int64(0)
	skipping := false
	err = m.each(file, true, func(i *rdb.Item) error {
		if i.Part == 0 {
			skipping = file.Offset() <= s.offset && !i.More
		}
		// Skip what is before the position; if it is within a value in parts, send the value from its beginning.
		if skipping {
			m.result.Keys--
			return nil
		}
		end := begin
		if !i.More {
			end = file.Offset()
			begin = end
		}
		return m.sendItem(i, end)
	}, func(source []byte) error {
		return m.queue(resp.AppendCommand(nil, []byte("FUNCTION"), []byte("LOAD"), []byte("REPLACE"), source),
			file.Offset(), "a library")
	})
	if t == nil {
		return err
	}
	m.tables = nil
	if e := t.finish(begin); err == nil || errors.Is(e, errTablesRefused) {
		err = e
	}
	if errors.Is(err, errTablesRefused) {
		m.refused = true
		before.Keys += t.committed
		m.result = before
		m.mu.Lock()
		s.offset = max(s.offset, m.state.Offset)
		m.mu.Unlock()
	}
	return err
}

func (m *importer) selectDB(db uint64, at int64) error {
	m.db = db
	return m.queue(resp.AppendCommand(nil, "SELECT", strconv.FormatUint(db, 10)), at, "SELECT "+strconv.FormatUint(db, 10))
}

// queue sends commands of which only the last reply matters; what describes them.
func (m *importer) queue(b []byte, end int64, what string) error {
	file, db, place := m.file, m.db, m.tables == nil
	if place {
		m.sent = end
	} else {
		m.tables.commands = true // and the next chunk brings the place
	}
	return m.pipe.Send(b, func(r *resp.Reply) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.answered(r, end, db, what)
		if place {
			m.state.at(file, end, db)
		}
	})
}

// failed returns the error that ends the import.
func (m *importer) failed() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.failing
}

// answered handles the reply to what ends at an offset of a file. mu is held.
func (m *importer) answered(r *resp.Reply, end int64, db uint64, what string) {
	if err := r.Err(); err != nil {
		m.result.Errors.Add("byte %d, %s: %v", end, what, err)
		if len(what) > 6 && what[:6] == "SELECT" && m.failing == nil {
			m.failing = fmt.Errorf("the server has no database %d (%w): redis-databases gives it some, --db takes one of "+
				"the file", db, err)
		}
	}
}

// sendItem sends a part of a key.
func (m *importer) sendItem(i *rdb.Item, end int64) error {
	if err := m.failed(); err != nil {
		return err
	}
	if i.DB != m.db {
		if err := m.selectDB(i.DB, end); err != nil {
			return err
		}
	}
	if m.tables != nil && m.tables.takes(i) {
		return m.tables.put(i, end)
	}
	v := i.Value
	key := string(i.Key)
	if i.Part > 0 || i.More {
		return m.sendPart(i, end)
	}
	b := m.buf[:0]
	expire := strconv.FormatInt(i.Expire, 10)
	if v.Kind == rdb.String && !isHLL(v.String) {
		n := 3
		if i.Expires {
			n = 5
		}
		b = resp.AppendBulk(resp.AppendBulk(resp.AppendBulk(resp.AppendHead(b, '*', n), "SET"), i.Key), v.String)
		if i.Expires {
			b = resp.AppendBulk(resp.AppendBulk(b, "PXAT"), expire)
		}
	} else {
		value, version := rdb.AppendValue(nil, v)
		value = rdb.AppendFooter(value, version)
		if !i.Expires {
			expire = "0"
		}
		b = resp.AppendBulk(resp.AppendBulk(resp.AppendHead(b, '*', 6), "RESTORE"), i.Key)
		b = resp.AppendBulk(resp.AppendBulk(resp.AppendBulk(resp.AppendBulk(b, expire), value), "REPLACE"), "ABSTTL")
	}
	m.buf = b
	return m.queue(b, end, key)
}

// sendPart sends a part of a large key as commands that add to it.
func (m *importer) sendPart(i *rdb.Item, end int64) error {
	key := string(i.Key)
	if i.Part == 0 {
		if err := m.queue(resp.AppendCommand(nil, "DEL", key), end, key); err != nil {
			return err
		}
	}
	b, err := appendValue(m.buf[:0], i, func(b []byte) ([]byte, error) { return b[:0], m.queue(b, end, key) })
	m.buf = b
	if err == nil && !i.More && i.Expires {
		err = m.queue(resp.AppendCommand(nil, "PEXPIREAT", key, strconv.FormatInt(i.Expire, 10)), end, key)
	}
	return err
}

// sendCommands sends the commands of a file.
func (m *importer) sendCommands(s *source, c *commandReader, mustBeAOF bool) error {
	multi := false
	safe := c.offset // the end of the last complete transaction
	for {
		raw, args, err := c.next()
		switch {
		case err == io.EOF && !multi:
			m.result.Bytes += c.offset - s.offset
			return nil
		case err == io.EOF, errors.Is(err, errTruncated):
			m.result.Warnings = append(m.result.Warnings, fmt.Sprintf("%s ends within a %s: what is behind byte %d is "+
				"left out", s.Path, map[bool]string{true: "transaction", false: "command"}[multi], safe))
			if multi {
				return m.queue(resp.AppendCommand(nil, "DISCARD"), safe, "DISCARD")
			}
			return nil
		case err != nil:
			return fmt.Errorf("%s: %w", s.Path, err)
		}
		if mustBeAOF && raw[0] != '*' {
			return fmt.Errorf("%s: what follows the RDB file at byte %d is no command", s.Path, c.offset)
		}
		if raw[0] != '*' {
			m.buf = resp.AppendCommand(m.buf[:0], args...)
			raw = m.buf
		}
		switch name := args[0]; {
		case command.EqualFold(name, "MULTI"):
			multi = true
		case command.EqualFold(name, "EXEC"), command.EqualFold(name, "DISCARD"):
			multi = false
		case command.EqualFold(name, "SELECT") && len(args) == 2:
			if n, err := strconv.ParseUint(string(args[1]), 10, 31); err == nil {
				m.db = n
			}
		}
		if !multi {
			safe = c.offset
		}
		m.result.Commands++
		what := string(args[0])
		if len(args) > 1 {
			what += fmt.Sprintf(" %.40s", args[1])
		}
		if err := m.queue(raw, safe, what); err != nil {
			return err
		}
		if err := m.failed(); err != nil {
			return err
		}
	}
}

// importState is the position of an import, stored in a file beside the imported file.
type importState struct {
	Path   string      `json:"path"`
	To     string      `json:"to"`
	Only   int         `json:"only"`  // ImportOptions.DB
	Sizes  []int64     `json:"sizes"` // of the files
	Times  []time.Time `json:"times"` // modification times
	File   int         `json:"file"`
	Offset int64       `json:"offset"` // offset in that file; everything before it was answered
	DB     uint64      `json:"db"`
	// Unsure is the number of commands after the offset that may have been executed, because their replies were not
	// seen.
	Unsure int `json:"unsure"`

	where string
	saved time.Time
	err   error
}

// stateEvery is the interval of saving the state.
const stateEvery = time.Second

// at records that everything up to an offset was answered, and saves that from time to time.
func (s *importState) at(file int, offset int64, db uint64) {
	s.File, s.Offset, s.DB = file, offset, db
	if s.where != "" && time.Since(s.saved) > stateEvery {
		s.Unsure = maxPending
		if err := s.save(); err != nil && s.err == nil {
			s.err = err
		}
	}
}

func (s *importState) save() error {
	if s.where == "" {
		return nil
	}
	s.saved = time.Now()
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return durable.Write(s.where, append(b, '\n'), 0o600)
}

func (s *importState) remove() error {
	if s.where == "" {
		return nil
	}
	if s.err != nil {
		return s.err
	}
	if err := os.Remove(s.where); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// loadState returns the start position of an import: that of an earlier run, or the beginning.
func loadState(o *ImportOptions, files []File) (*importState, error) {
	s := &importState{Path: o.Path, To: o.Server.String(), Only: o.DB}
	if o.Path == "-" {
		return s, nil
	}
	s.where = o.State
	if s.where == "" {
		s.where = filepath.Clean(o.Path) + ".import-state"
	}
	s.saved = time.Now()
	for _, f := range files {
		st, err := os.Stat(f.Path)
		if err != nil {
			return nil, err
		}
		s.Sizes, s.Times = append(s.Sizes, st.Size()), append(s.Times, st.ModTime())
	}
	b, err := os.ReadFile(s.where)
	if errors.Is(err, os.ErrNotExist) || err == nil && o.Restart {
		return s, nil
	}
	if err != nil {
		return nil, err
	}
	old := &importState{}
	if err := json.Unmarshal(b, old); err != nil {
		return nil, fmt.Errorf("%s: %w", s.where, err)
	}
	same := old.To == s.To && old.Only == s.Only && len(old.Sizes) == len(s.Sizes) && old.File < len(s.Sizes)
	for i := range s.Sizes {
		same = same && old.Sizes[i] == s.Sizes[i] && old.Times[i].Equal(s.Times[i])
	}
	if !same {
		return nil, fmt.Errorf("%s is of an import of other files or another --db, or to another server; "+
			"--restart begins anew", s.where)
	}
	old.where, old.saved = s.where, s.saved
	return old, nil
}

func (r *ImportResult) Reasons() []string { return sortedReasons(r.Skipped) }

func sortedReasons(skipped map[string]*Examples) []string { return slices.Sorted(maps.Keys(skipped)) }
