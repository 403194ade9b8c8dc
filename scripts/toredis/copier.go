package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"math"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine/batch"
	"github.com/basaltdb/basalt/scripts/internal/redisclient"
	"github.com/basaltdb/basalt/server/replication/proto"
)

// endpoint is a server.
type endpoint struct{ addr, password string }

// timeout bounds every exchange with a server.
const timeout = time.Minute

func (e endpoint) dial() (*redisclient.Conn, error) {
	c, err := redisclient.Dial(e.addr, timeout)
	if err == nil && e.password != "" {
		if _, err = c.Do("AUTH", e.password); err != nil {
			c.Close()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", e.addr, err)
	}
	return c, nil
}

// copier keeps a Redis equal to a source.
type copier struct {
	from, to  endpoint
	position  string
	databases int
	slots     bool
	log       *log.Logger

	source, target *redisclient.Conn
	warned         map[string]bool
}

// key is a key of a database.
type key struct {
	db   int
	name string
}

// errNoLog: the source's log does not reach back to where the copy is.
var errNoLog = errors.New("the source no longer has what the copy lacks")

// run copies until a connection fails or ctx is done.
func (c *copier) run(ctx context.Context) (err error) {
	if c.source, err = c.from.dial(); err != nil {
		return err
	}
	defer c.source.Close()
	if c.target, err = c.to.dial(); err != nil {
		return err
	}
	defer c.target.Close()
	if c.warned == nil {
		c.warned = map[string]bool{}
	}
	at, err := c.readPosition()
	if err != nil {
		return err
	}
	if at.next != 0 {
		if err = c.follow(ctx, at); !errors.Is(err, errNoLog) {
			return err
		}
		c.log.Print(err)
	}
	if at, err = c.copyAll(ctx); err != nil {
		return err
	}
	return c.follow(ctx, at)
}

// position is where the copy is in the source's log.
type position struct {
	next uint64 // the sequence number of the next write, 0 = it is nowhere
	id   string // the replication id of the one before, "" = not known
}

func (c *copier) readPosition() (p position, err error) {
	if _, err = c.target.Do("SELECT", "0"); err != nil {
		return p, err
	}
	v, err := c.target.Do("GET", c.position)
	if err != nil || v.IsNull() {
		return p, err
	}
	text, id, _ := strings.Cut(v.String(), " ")
	last, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		return p, fmt.Errorf("%s holds %q", c.position, v.String())
	}
	return position{last + 1, id}, nil
}

func (c *copier) writePosition(p position) error {
	if _, err := c.target.Do("SELECT", "0"); err != nil {
		return err
	}
	_, err := c.target.Do("SET", c.position, strings.TrimSpace(strconv.FormatUint(p.next-1, 10)+" "+p.id))
	return err
}

// copyAll copies all keys, and deletes those that the source does not have. What changes meanwhile comes again: the
// position is that of the beginning.
func (c *copier) copyAll(ctx context.Context) (p position, err error) {
	c.log.Print("all keys are copied")
	v, err := c.source.Do("INFO", "replication")
	if err != nil {
		return p, err
	}
	for line := range strings.Lines(v.String()) {
		if text, ok := strings.CutPrefix(strings.TrimSpace(line), "master_repl_offset:"); ok {
			if p.next, err = strconv.ParseUint(text, 10, 63); err != nil {
				return p, err
			}
		}
	}
	p.next++
	n := 0
	for db := range c.databases {
		if _, err := c.source.Do("SELECT", strconv.Itoa(db)); err != nil {
			break // it has no more
		}
		err := scan(ctx, c.source, func(names []string) error {
			keys := make([]key, len(names))
			for i, name := range names {
				keys[i] = key{db, name}
			}
			n += len(keys)
			return c.copyKeys(nil, keys)
		})
		if err != nil {
			return p, err
		}
		if _, err := c.target.Do("SELECT", strconv.Itoa(db)); err != nil {
			return p, err
		}
		if err := scan(ctx, c.target, c.deleteMissing); err != nil {
			return p, err
		}
	}
	c.log.Printf("%d keys were copied, up to sequence number %d", n, p.next-1)
	return p, c.writePosition(p)
}

// scan calls f for the keys of the selected database.
func scan(ctx context.Context, c *redisclient.Conn, f func(names []string) error) error {
	for cursor := "0"; ctx.Err() == nil; {
		v, err := c.Do("SCAN", cursor, "COUNT", "500")
		if err != nil {
			return err
		}
		reply := v.Array()
		if len(reply) != 2 {
			return fmt.Errorf("SCAN: %s", v)
		}
		cursor = reply[0].String()
		var names []string
		for _, name := range reply[1].Array() {
			names = append(names, name.String())
		}
		if err := f(names); err != nil {
			return err
		}
		if cursor == "0" {
			return nil
		}
	}
	return ctx.Err()
}

// deleteMissing deletes those keys of the target that the source does not have. Both have the database selected.
func (c *copier) deleteMissing(names []string) error {
	for _, name := range names {
		c.source.Send("EXISTS", name)
	}
	if err := c.source.Flush(); err != nil {
		return err
	}
	for _, name := range names {
		v, err := c.source.Receive()
		if err != nil {
			return err
		}
		if v.Integer() == 0 && name != c.position {
			c.target.Send("DEL", name)
		}
	}
	if err := c.target.Flush(); err != nil {
		return err
	}
	return c.target.Drain()
}

// copyKeys empties databases and then makes keys of the target what they are in the source now, all at once.
func (c *copier) copyKeys(flushed []int, keys []key) error {
	db := -1
	for _, k := range keys {
		if k.db != db {
			db = k.db
			c.source.Send("SELECT", strconv.Itoa(db))
		}
		c.source.Send("DUMP", k.name)
		c.source.Send("PEXPIRETIME", k.name)
	}
	if err := c.source.Flush(); err != nil {
		return err
	}
	c.target.Send("MULTI")
	for _, n := range flushed {
		c.target.Send("SELECT", strconv.Itoa(n))
		c.target.Send("FLUSHDB")
	}
	from, to := -1, -1
	for _, k := range keys {
		if k.db != from {
			from = k.db
			if _, err := c.source.Receive(); err != nil {
				return fmt.Errorf("SELECT %d: %w", k.db, err)
			}
		}
		value, err := c.source.Receive()
		var refused redisclient.ServerError
		if err != nil && !errors.As(err, &refused) {
			return err
		}
		expiry, e := c.source.Receive()
		if e != nil {
			return e
		}
		if err != nil {
			c.warn(fmt.Sprintf("%q of database %d is left out: %v", k.name, k.db, err))
			continue
		}
		if k.name == c.position && k.db == 0 {
			continue
		}
		if k.db != to {
			to = k.db
			c.target.Send("SELECT", strconv.Itoa(to))
		}
		if value.IsNull() || expiry.Integer() == -2 {
			c.target.Send("DEL", k.name)
		} else {
			c.target.Send("RESTORE", k.name, strconv.Itoa(max(expiry.Integer(), 0)), value.String(), "REPLACE", "ABSTTL")
		}
	}
	c.target.Send("EXEC")
	if err := c.target.Flush(); err != nil {
		return err
	}
	for c.target.Pending() > 1 {
		if _, err := c.target.Receive(); err != nil {
			return err
		}
	}
	replies, err := c.target.Receive()
	if err != nil {
		return err
	}
	for _, r := range replies.Array() {
		if err := r.Error(); err != nil {
			return fmt.Errorf("the Redis does not take a key: %w", err)
		}
	}
	return nil
}

func (c *copier) warn(text string) {
	if !c.warned[text] && len(c.warned) < 1000 {
		c.warned[text] = true
		c.log.Print(text)
	}
}

// ackEvery is how often the source is told how far the copy is.
const ackEvery = time.Second

// follow copies what changes. It acknowledges only what the target has.
func (c *copier) follow(ctx context.Context, at position) error {
	nc, err := net.DialTimeout("tcp", c.from.addr, timeout)
	if err != nil {
		return err
	}
	defer nc.Close()
	defer context.AfterFunc(ctx, func() { nc.Close() })()
	in := bufio.NewReader(nc)
	ask := func(request []byte) ([]byte, error) {
		nc.SetDeadline(time.Now().Add(timeout))
		if _, err := nc.Write(request); err != nil {
			return nil, err
		}
		line, err := in.ReadBytes('\n')
		return []byte(strings.TrimRight(string(line), "\r\n")), err
	}
	requests := [][]byte{proto.AppendDBName(nil), proto.AppendConf(nil, proto.Conf{Port: 1}), proto.AppendCapa(nil, false)}
	if c.from.password != "" {
		requests = append([][]byte{proto.AppendAuth(nil, "", c.from.password)}, requests...)
	}
	for _, request := range requests {
		if _, err := ask(request); err != nil { // an old Kvrocks knows no capabilities
			return err
		}
	}
	line, err := ask(proto.AppendPSync(nil, proto.PSync{ID: at.id, Next: at.next}))
	if err != nil {
		return err
	}
	if err := proto.CheckOK(line); err != nil {
		var reply proto.ReplyError
		if errors.As(err, &reply) && reply.Loading() {
			return err
		}
		return fmt.Errorf("%w: %w", errNoLog, err)
	}
	c.log.Printf("changes are copied from sequence number %d on", at.next)
	return c.stream(nc, in, at)
}

// changes are those of some batches.
type changes struct {
	keys    []key
	seen    map[key]bool
	flushed []int // databases that were emptied
	end     position
}

// stream copies what comes.
func (c *copier) stream(nc net.Conn, in io.Reader, at position) error {
	buf := make([]byte, 0, 1<<20)
	acked := time.Now()
	ch := changes{seen: map[key]bool{}, end: at}
	for {
		used, asked := 0, false
		for {
			f, n, need, err := proto.ReadFrame(buf[used:], math.MaxInt32)
			if err != nil {
				return err
			}
			if n == 0 {
				if need > cap(buf)-used {
					buf = append(make([]byte, 0, 2*need), buf[used:]...)
					used = 0
				}
				break
			}
			switch f.Kind {
			case proto.KindBatch:
				if err := c.note(&ch, &f); err != nil {
					return err
				}
			case proto.KindGetAck:
				asked = true
			}
			used += n
		}
		if ch.end != at {
			if err := c.copyKeys(ch.flushed, ch.keys); err != nil {
				return err
			}
			if err := c.writePosition(ch.end); err != nil {
				return err
			}
			at = ch.end
			ch = changes{seen: map[key]bool{}, end: at}
		}
		if asked || time.Since(acked) > ackEvery {
			acked = time.Now()
			nc.SetWriteDeadline(acked.Add(timeout))
			if _, err := nc.Write(proto.AppendAck(nil, at.next-1)); err != nil {
				return err
			}
		}
		buf = buf[:copy(buf, buf[used:])]
		nc.SetReadDeadline(time.Now().Add(timeout)) // the source pings
		n, err := in.Read(buf[len(buf):cap(buf)])
		if n == 0 && err != nil {
			return err
		}
		buf = buf[:len(buf)+n]
	}
}

// note notes which keys a batch changes.
func (c *copier) note(ch *changes, f *proto.Frame) error {
	r, err := batch.NewReader(f.Payload)
	if err != nil {
		return err
	}
	for {
		rec, ok := r.Next()
		if !ok {
			break
		}
		if rec.Kind == batch.LogData {
			if l, err := cf.ParseLogData(rec.Value); err == nil && l.ReplicationID != nil {
				ch.end.id = string(l.ReplicationID)
			}
			continue
		}
		if rec.Kind == batch.DeleteRange && rec.Family == cf.Metadata {
			if err := c.noteRange(ch, rec.Key, rec.Value); err != nil {
				return err
			}
			continue
		}
		switch rec.Family {
		case cf.Metadata:
			err = c.noteKey(ch, rec.Key)
		case cf.Default, cf.ZSetScore, cf.Stream:
			var nsKey []byte
			if nsKey, err = cf.AppendNSKeyOf(nil, rec.Key, c.slots); err == nil {
				err = c.noteKey(ch, nsKey)
			}
		}
		if err != nil {
			return err
		}
	}
	ch.end.next = f.Sequence() + uint64(f.Count())
	return r.Err()
}

func (c *copier) noteKey(ch *changes, nsKey []byte) error {
	ns, name, err := cf.SplitNSKey(nsKey, c.slots)
	if err != nil {
		return err
	}
	db, ok := cf.NamespaceDatabase(string(ns))
	if !ok {
		c.warn(fmt.Sprintf("the namespace %q is left out", ns))
		return nil
	}
	if k := (key{db, string(name)}); !ch.seen[k] {
		ch.seen[k] = true
		ch.keys = append(ch.keys, k)
	}
	return nil
}

// noteRange notes that all keys of namespaces are deleted: FLUSHDB, FLUSHALL. A range that takes a part of one is made
// by nobody who can be followed key by key.
func (c *copier) noteRange(ch *changes, begin, end []byte) error {
	n := 0
	for db := range c.databases {
		prefix := cf.AppendNSPrefix(nil, cf.DatabaseNamespace(db))
		after, _ := cf.AppendSuccessor(nil, prefix)
		switch {
		case string(begin) <= string(prefix) && string(after) <= string(end):
			ch.flushed = append(ch.flushed, db)
			n++
		case string(prefix) < string(end) && string(begin) < string(after):
			return fmt.Errorf("%w: a part of database %d was deleted at once", errNoLog, db)
		}
	}
	if n == 0 {
		c.warn("a namespace that is left out was emptied")
	}
	return nil
}
