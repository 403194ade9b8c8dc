package migrate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/basaltdb/basalt/internal/transfer"
	"github.com/basaltdb/basalt/server/rdb"
	"github.com/basaltdb/basalt/server/resp"
)

// copier makes a target equal to a source, key by key, and keeps it equal.
type copier struct {
	from, to  *peer
	databases func(db int) (home int, ok bool) // the database of the target for one of the source

	rounds  atomic.Pointer[rounds] // the newest, which follow the source's changes
	copied  atomic.Int64           // number of copied keys, counting repetitions
	moved   atomic.Int64           // bytes of the first copy
	total   atomic.Int64           // bytes or keys of the first copy, 0 = unknown
	stage   atomic.Int32
	trouble atomic.Pointer[string] // why it is not making progress at the moment

	// The state of an attempt:
	ctx      context.Context
	end      context.CancelFunc
	absolute bool // the source knows PEXPIRETIME
	mu       sync.Mutex
	src, dst map[int]*keyspace // by their own databases

	left leftOut
	// large is held for writing while a key is copied that needs much memory.
	large sync.RWMutex
}

// The stages of a copier.
const (
	starting int32 = iota
	copying
	streaming
)

// leftOut are the keys that could not be copied.
type leftOut struct {
	mu      sync.Mutex
	reasons map[key]string
	others  map[string]*transfer.Examples // everything else that could not be copied
	more    int64                         // number beyond maxLeftOut
}

const maxLeftOut = 100_000

func (l *leftOut) add(k key, reason string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.reasons == nil {
		l.reasons = map[key]string{}
	}
	if _, ok := l.reasons[k]; !ok && len(l.reasons) >= maxLeftOut {
		l.more++
		return
	}
	l.reasons[k] = reason
}

// remove removes a key that was copied or deleted.
func (l *leftOut) remove(k key) {
	l.mu.Lock()
	delete(l.reasons, k)
	l.mu.Unlock()
}

// other adds something other than a key.
func (l *leftOut) other(reason, what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.others == nil {
		l.others = map[string]*transfer.Examples{}
	}
	if l.others[reason] == nil {
		l.others[reason] = &transfer.Examples{}
	}
	l.others[reason].Add("%.100s", what)
}

// reset removes all keys, because all keys are copied again.
func (l *leftOut) reset() {
	l.mu.Lock()
	l.reasons, l.others, l.more = nil, nil, 0
	l.mu.Unlock()
}

// list returns what was left out, by reason.
func (l *leftOut) list() map[string]*transfer.Examples {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := maps.Clone(l.others)
	if all == nil {
		all = map[string]*transfer.Examples{}
	}
	for k, reason := range l.reasons {
		if all[reason] == nil {
			all[reason] = &transfer.Examples{}
		}
		all[reason].Add("%.100q of database %d", k.name, k.db)
	}
	if l.more > 0 {
		all["more keys"] = &transfer.Examples{Count: l.more}
	}
	return all
}

// How long, and how often, a copier without progress tries again.
const (
	retryFor   = 5 * time.Minute
	retryEvery = time.Second
)

// run copies until ctx ends, or nothing has worked for retryFor. Progress in between restarts that time, unless a
// server returns the same error reply each time: a copy that starts again would end there again.
func (c *copier) run(ctx context.Context) error {
	last, seen := time.Now(), int64(-1)
	var refused resp.ReplyError
	since := last
	for {
		err := c.attempt(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if now := c.applied() + c.copied.Load(); now != seen {
			last, seen = time.Now(), now
		}
		var reply resp.ReplyError
		if !errors.As(err, &reply) || reply != refused {
			refused, since = reply, time.Now()
		}
		_, final := errors.AsType[finalError](err)
		if final || time.Since(last) > retryFor || time.Since(since) > retryFor && reply != "" {
			return err
		}
		text := err.Error()
		c.trouble.Store(&text)
		if err := sleep(ctx, retryEvery); err != nil {
			return err
		}
	}
}

// applied returns the position of the target, in the source's count.
func (c *copier) applied() int64 {
	if r := c.rounds.Load(); r != nil {
		return r.applied()
	}
	return 0
}

// finalError is an error that another attempt would not cure.
type finalError struct{ error }

func (e finalError) Unwrap() error { return e.error }

// attempt copies until an error occurs.
func (c *copier) attempt(ctx context.Context) error {
	c.ctx, c.end = context.WithCancel(ctx)
	defer c.end()
	c.src, c.dst = map[int]*keyspace{}, map[int]*keyspace{}
	c.stage.Store(starting)
	c.absolute = c.from.knows("pexpiretime")
	if c.from.kind == Redis {
		return c.followRedis(c.ctx)
	}
	return c.followKvrocks(c.ctx)
}

func (c *copier) keyspace(m map[int]*keyspace, p *peer, db int) (*keyspace, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := m[db]
	if k == nil {
		var err error
		if k, err = open(c.ctx, p, db); err != nil {
			return nil, err
		}
		m[db] = k
	}
	return k, nil
}

// source returns a database of the source.
func (c *copier) source(db int) (*keyspace, error) { return c.keyspace(c.src, c.from, db) }

// target returns the keyspace for the keys of a database of the source; ok is false when they are left out.
func (c *copier) target(db int) (k *keyspace, ok bool, err error) {
	home, ok := c.databases(db)
	if !ok {
		return nil, false, nil
	}
	k, err = c.keyspace(c.dst, c.to, home)
	if noDatabase(err) {
		return nil, false, nil
	}
	return k, true, err
}

// home returns the keyspace that has the position.
func (c *copier) home() (*keyspace, error) { return c.keyspace(c.dst, c.to, c.to.addr.DB) }

// position returns the position of the copy: its kind and the rest, "" = none.
func (c *copier) position() (kind, rest string, err error) {
	k, err := c.home()
	if err != nil {
		return "", "", err
	}
	r, err := k.do("GET", PositionKey)
	if err != nil {
		return "", "", err
	}
	kind, rest, _ = strings.Cut(string(r.Text), " ")
	return kind, rest, nil
}

func (c *copier) setPosition(text string) error {
	k, err := c.home()
	if err == nil {
		_, err = k.do("SET", PositionKey, text)
	}
	return err
}

// The kinds of positions.
const (
	positionCopying = "copying"
	positionRedis   = "redis"
	positionKvrocks = "kvrocks"
)

// restart empties the target before a copy of all keys.
func (c *copier) restart() error {
	c.stage.Store(copying)
	c.moved.Store(0)
	c.left.reset()
	if err := c.setPosition(positionCopying); err != nil {
		return err
	}
	k, err := c.home()
	if err != nil {
		return err
	}
	command := "FLUSHALL"
	if c.from.addr.DB != 0 || c.to.addr.DB != 0 { // only one database is copied
		command = "FLUSHDB"
	}
	if err := k.doOnEach(command); err != nil {
		return err
	}
	return c.setPosition(positionCopying)
}

// flushed empties the target's part of a database of the source; db < 0 = of all.
func (c *copier) flushed(db int) error {
	dbs := []int{db}
	if db < 0 {
		sizes, err := c.to.databases()
		if err != nil {
			return err
		}
		dbs = append(sortedKeys(sizes), c.from.addr.DB)
	}
	for _, db := range dbs {
		k, ok, err := c.target(db)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		if err := k.doOnEach("FLUSHDB"); err != nil {
			return err
		}
	}
	return nil
}

// copyKeys gives keys of the target the current state of the source.
func (c *copier) copyKeys(keys []key) error { return parallel(keys, dumpsAtOnce, c.copyKey) }

func (c *copier) copyKey(k key) error {
	dst, ok, err := c.target(k.db)
	if err != nil || k.name == PositionKey {
		return err
	}
	if !ok {
		c.left.add(k, "another database than the target has")
		return nil
	}
	src, err := c.source(k.db)
	if err != nil {
		return err
	}
	c.copied.Add(1)
	expiry := expiryCommand(c.absolute)
	replies, err := src.start(k.name, []string{"DUMP", k.name}, []string{expiry, k.name})()
	if err != nil {
		return err
	}
	dump, expire := &replies[0], &replies[1]
	if err := expire.Err(); err != nil {
		return fmt.Errorf("%s: %w", expiry, err)
	}
	if dump.Err() == nil && dump.Null || expire.Int == -2 {
		c.left.remove(k)
		_, err := dst.do("DEL", k.name)
		return err
	}
	if err := dump.Err(); err != nil {
		return c.copyOther(src, dst, k, expiry, err)
	}
	return c.restore(dst, k, string(dump.Text), expire.Int, c.absolute)
}

// restore writes a value to the target. expire is a time to live in milliseconds or a time, < 0 = never.
func (c *copier) restore(dst *keyspace, k key, payload string, expire int64, absolute bool) error {
	if expire = max(expire, -1) + 1; expire > 1 { // RESTORE takes 0 for never; a PTTL of 0 is less than a millisecond
		expire--
	}
	args := []string{"RESTORE", k.name, strconv.FormatInt(expire, 10), payload, "REPLACE"}
	if absolute {
		args = append(args, "ABSTTL")
	}
	_, err := dst.do(args...)
	return c.restored(dst, k, err)
}

// restored distinguishes an error of a value, which is left out, from an error of the target.
func (c *copier) restored(dst *keyspace, k key, err error) error {
	var reply resp.ReplyError
	if err == nil {
		c.left.remove(k)
		return nil
	}
	if !errors.As(err, &reply) {
		return err
	}
	for _, text := range []string{"DUMP payload", "Bad data format", "too large", "too long", "nsupported"} {
		if strings.Contains(string(reply), text) {
			c.left.add(k, "the target does not take the value: "+string(reply))
			_, err := dst.do("DEL", k.name)
			return err
		}
	}
	return err
}

// copyOther copies a key of a type without DUMP.
func (c *copier) copyOther(src, dst *keyspace, k key, expiry string, dumpError error) error {
	r, err := src.do("TYPE", k.name)
	if err != nil {
		return err
	}
	kind := string(r.Text)
	commands, err := otherCommands(src, k.name, kind)
	if err != nil {
		return err
	}
	if commands == nil {
		c.left.add(k, fmt.Sprintf("type %s: %v", kind, dumpError))
		_, err := dst.do("DEL", k.name)
		return err
	}
	if r, err = src.do(expiry, k.name); err != nil {
		return err
	}
	if r.Int >= 0 {
		set := "PEXPIRE"
		if c.absolute {
			set = "PEXPIREAT"
		}
		commands = append(commands, []string{set, k.name, strconv.FormatInt(r.Int, 10)})
	}
	commands = append([][]string{{"DEL", k.name}}, commands...)
	replies, err := dst.start(k.name, commands...)()
	if err != nil {
		return err
	}
	for i := range replies {
		if err := replies[i].Err(); err != nil {
			if strings.HasPrefix(err.Error(), "ERR unknown command") {
				c.left.add(k, fmt.Sprintf("type %s, which the target does not have", kind))
				return nil
			}
			return fmt.Errorf("%s %.100q: %w", commands[i][0], k.name, err)
		}
	}
	c.left.remove(k)
	return nil
}

// otherCommands returns commands that create a value without DUMP, nil = there are none.
func otherCommands(src *keyspace, name, kind string) ([][]string, error) {
	switch kind {
	case "ReJSON-RL":
		r, err := src.do("JSON.GET", name)
		if err != nil || r.Null {
			return nil, err
		}
		return [][]string{{"JSON.SET", name, "$", string(r.Text)}}, nil
	case "sortedint":
		commands := [][]string{}
		first := "-inf"
		for {
			// The SIRANGE of Kvrocks leaves out the id 0.
			r, err := src.do("SIRANGEBYVALUE", name, first, "+inf", "LIMIT", "0", strconv.Itoa(partElems))
			if err != nil {
				return nil, err
			}
			if len(r.Elems) == 0 {
				return commands, nil
			}
			add := []string{"SIADD", name}
			for _, e := range r.Elems {
				add = append(add, string(e.Text))
			}
			commands = append(commands, add)
			first = "(" + add[len(add)-1]
		}
	}
	return nil, nil
}

// largeItem is the min size in bytes of a key of an RDB file that is copied alone.
const largeItem = 1 << 20

// copyItem copies a key of an RDB file.
func (c *copier) copyItem(i *rdb.Item) error {
	k := key{int(i.DB), string(i.Key)}
	dst, ok, err := c.target(k.db)
	if err != nil || k.name == PositionKey {
		return err
	}
	switch {
	case i.Skipped != "":
		c.left.add(k, i.Skipped)
		return nil
	case !ok:
		c.left.add(k, "another database than the target has")
		return nil
	case i.Value == nil:
		return nil
	}
	body, version := rdb.AppendValue(nil, i.Value)
	if len(body) > largeItem {
		c.large.Lock()
		defer c.large.Unlock()
	} else {
		c.large.RLock()
		defer c.large.RUnlock()
	}
	c.copied.Add(1)
	expire := int64(-1)
	if i.Expires {
		if expire = i.Expire; expire <= 0 {
			return nil
		}
	}
	return c.restore(dst, k, string(rdb.AppendFooter(body, version)), expire, true)
}

// copyFunctions gives the target the function libraries of the source.
func (c *copier) copyFunctions() error {
	src, err := c.source(c.from.addr.DB)
	if err != nil {
		return err
	}
	var libraries []string
	err = src.each(func(p *pipe) error {
		replies, err := p.start([]string{"FUNCTION", "LIST", "WITHCODE"})()
		if err != nil {
			return err
		}
		for i := range replies[0].Elems { // empty for a server without functions
			if code := member(&replies[0].Elems[i], "library_code"); code != nil {
				libraries = append(libraries, string(code.Text))
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	dst, err := c.home()
	if err != nil {
		return err
	}
	return dst.each(func(p *pipe) error {
		old, err := p.start([]string{"FUNCTION", "LIST"})()
		if err != nil {
			return err
		}
		if len(libraries) == 0 && len(old[0].Elems) == 0 { // or the target has no functions
			return nil
		}
		for i := range old[0].Elems { // Kvrocks has no FUNCTION FLUSH
			name := member(&old[0].Elems[i], "library_name")
			if name == nil {
				continue
			}
			if _, err := p.do("FUNCTION", "DELETE", string(name.Text)); err != nil {
				return err
			}
		}
		for _, code := range libraries {
			if _, err := p.do("FUNCTION", "LOAD", code); err != nil {
				c.left.other("library of functions", err.Error())
			}
		}
		return nil
	})
}
