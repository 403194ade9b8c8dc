package carry

import (
	"fmt"
	"math"
	"strconv"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine/batch"
	"github.com/basaltdb/basalt/engine/stream"
	"github.com/basaltdb/basalt/server/cluster/migration/slotdata"
)

// commander sends keys as commands, in pipelines of some size.
//
//	string              SET, with PXAT
//	hash, set, zset     HMSET, SADD, ZADD, of 16 elements each
//	list, sortedint     RPUSH, SIADD, likewise
//	all other types     APPLYBATCH with their records
//	bitmap, stream      SETBIT for each bit, XADD and XSETID, when the destination has no APPLYBATCH
//
// and PEXPIREAT where there is an expiry.
type commander struct {
	*To
	queued int      // commands without a reply
	args   [][]byte // of the command that is being made
	arena  []byte   // memory of args
	items  int      // elements in the command
	batch  batch.Builder
}

const (
	// perCommand is how many elements one command carries, as in Kvrocks.
	perCommand = 16
	// commandBytes: a command of at least this many bytes takes no more elements.
	commandBytes = 64 << 10
	// queueBytes: a pipeline of at least this many bytes is sent, whatever the number of its commands.
	queueBytes = 1 << 20
)

func (c *commander) begin(name string, key []byte) {
	c.args, c.arena, c.items = c.args[:0], c.arena[:0], 0
	c.arg([]byte(name))
	c.arg(key)
}

func (c *commander) arg(a []byte) {
	n := len(c.arena)
	c.arena = append(c.arena, a...)
	c.args = append(c.args, c.arena[n:len(c.arena):len(c.arena)])
}

func (c *commander) argUint(n uint64) { c.arg(strconv.AppendUint(nil, n, 10)) }

func (c *commander) end() error {
	if err := c.Peer.Send(c.args...); err != nil {
		return err
	}
	c.queued++
	if c.queued >= c.Settings().Pipeline || c.Peer.Buffered() >= queueBytes {
		return c.ship()
	}
	return nil
}

// ship sends the queued commands and reads their replies.
func (c *commander) ship() error {
	if c.queued == 0 {
		return nil
	}
	if err := c.wait(c.queued, int64(c.Settings().Speed)); err != nil {
		return err
	}
	if err := c.Check(); err != nil {
		return err
	}
	if err := c.Peer.Flush(); err != nil {
		return err
	}
	for ; c.queued > 0; c.queued-- {
		if _, err := c.Peer.Reply(); err != nil {
			return err
		}
	}
	return nil
}

func (c *commander) one(name string, key []byte, args ...[]byte) error {
	c.begin(name, key)
	for _, a := range args {
		c.arg(a)
	}
	return c.end()
}

func (c *commander) del(key []byte) error { return c.one("DEL", key) }

// expireAt sets or removes an expiry.
func (c *commander) expireAt(key []byte, at uint64) error {
	if at == 0 {
		return c.one("PERSIST", key)
	}
	return c.one("PEXPIREAT", key, strconv.AppendUint(nil, at, 10))
}

// elements makes commands with several elements each, all with one name and key.
type elements struct {
	c    *commander
	name string
	key  []byte
	open bool
}

func (e *elements) add(args ...[]byte) error {
	if !e.open {
		e.c.begin(e.name, e.key)
		e.open = true
	}
	for _, a := range args {
		e.c.arg(a)
	}
	if e.c.items++; e.c.items < perCommand && len(e.c.arena) < commandBytes {
		return nil
	}
	return e.end()
}

func (e *elements) end() error {
	if !e.open {
		return nil
	}
	e.open = false
	return e.c.end()
}

// form is the way in which a key is sent.
type form uint8

const (
	byCommand form = iota // by commands, and its changes too
	byRecords             // APPLYBATCH
	byWhole               // by commands; after a change the whole key again
)

func (c *commander) formOf(m *cf.Meta, nsKey, record []byte) (form, error) {
	if err := c.Knows.carries(m, nsKey, record); err != nil {
		return 0, err
	}
	switch m.Type {
	case cf.TypeString, cf.TypeList, cf.TypeSet, cf.TypeZSet, cf.TypeSortedInt:
		return byCommand, nil
	case cf.TypeHash:
		if !isHashTTL(m, record) {
			return byCommand, nil
		}
	}
	if c.Knows.ApplyBatch {
		return byRecords, nil
	}
	_, tail, err := cf.DecodeMeta(record)
	if err != nil {
		return 0, err
	}
	switch m.Type {
	case cf.TypeBitmap:
		return byWhole, nil
	case cf.TypeStream:
		if s, err := cf.DecodeStreamMeta(tail); err != nil {
			return 0, err
		} else if s.Groups == 0 {
			return byWhole, nil
		}
		return 0, fmt.Errorf("stream %q has consumer groups, which cannot be carried by commands: "+
			"the destination has no APPLYBATCH", slotdata.UserKey(nsKey))
	}
	return 0, fmt.Errorf("key %q is of the type %s, which cannot be carried by commands: "+
		"the destination has no APPLYBATCH", slotdata.UserKey(nsKey), m.Type)
}

// snapshot sends a key that the destination does not have.
func (c *commander) snapshot(r *slotdata.Reader, k *slotdata.Key, now int64) error {
	how, err := c.formOf(&k.Meta, k.NSKey, k.Record)
	if err != nil {
		return err
	}
	if how == byRecords {
		return c.records(r, k)
	}
	if k.Meta.Expired(now) {
		return nil // a Mirror sends the key if it gets a later expiry
	}
	switch k.Meta.Type {
	case cf.TypeString:
		return c.str(k)
	case cf.TypeStream:
		err = c.stream(r, k)
	case cf.TypeBitmap:
		err = r.Elements(k, func(e *slotdata.Element) error { return c.bits(k, e) })
	default:
		list := elements{c: c, name: adds[k.Meta.Type], key: k.Name}
		err = r.Elements(k, func(e *slotdata.Element) error { return list.element(k.Meta.Type, e.Sub, e.Value) })
		if err == nil {
			err = list.end()
		}
	}
	if err == nil && k.Meta.Expire != 0 {
		err = c.expireAt(k.Name, k.Meta.Expire)
	}
	return err
}

var (
	adds = map[cf.Type]string{cf.TypeHash: "HMSET", cf.TypeSet: "SADD", cf.TypeZSet: "ZADD", cf.TypeList: "RPUSH",
		cf.TypeSortedInt: "SIADD"}
	removes = map[cf.Type]string{cf.TypeHash: "HDEL", cf.TypeSet: "SREM", cf.TypeZSet: "ZREM",
		cf.TypeSortedInt: "SIREM"}
)

// element adds an element, given as its record.
func (e *elements) element(t cf.Type, sub, value []byte) error {
	switch t {
	case cf.TypeHash:
		return e.add(sub, value)
	case cf.TypeSet:
		return e.add(sub)
	case cf.TypeList:
		return e.add(value)
	case cf.TypeZSet:
		score, err := cf.ParseDouble(value)
		if err != nil {
			return err
		}
		return e.add(scoreText(score), sub)
	case cf.TypeSortedInt:
		id, err := cf.ParseU64Sub(sub)
		if err != nil {
			return err
		}
		return e.add(strconv.AppendUint(nil, id, 10))
	}
	return fmt.Errorf("elements of a %s", t)
}

// removal removes an element.
func (e *elements) removal(t cf.Type, sub []byte) error {
	if t != cf.TypeSortedInt {
		return e.add(sub)
	}
	id, err := cf.ParseU64Sub(sub)
	if err != nil {
		return err
	}
	return e.add(strconv.AppendUint(nil, id, 10))
}

// scoreText formats a score so that every server reads the same number back.
func scoreText(f float64) []byte {
	switch {
	case math.IsInf(f, 1):
		return []byte("inf")
	case math.IsInf(f, -1):
		return []byte("-inf")
	}
	return strconv.AppendFloat(nil, f, 'g', 17, 64)
}

func (c *commander) str(k *slotdata.Key) error {
	if k.Meta.Expire == 0 {
		return c.one("SET", k.Name, k.Tail)
	}
	return c.one("SET", k.Name, k.Tail, []byte("PXAT"), strconv.AppendUint(nil, k.Meta.Expire, 10))
}

// bits sends the bits of one part of a bitmap.
func (c *commander) bits(k *slotdata.Key, e *slotdata.Element) error {
	at, err := cf.ParseBitmapSub(e.Sub)
	if err != nil {
		return err
	}
	for i, b := range e.Value {
		for bit := range 8 {
			if b&(1<<bit) == 0 {
				continue
			}
			offset := (at+uint64(i))*8 + uint64(bit)
			if err := c.one("SETBIT", k.Name, strconv.AppendUint(nil, offset, 10), []byte("1")); err != nil {
				return err
			}
		}
	}
	return nil
}

// stream sends a stream without groups.
func (c *commander) stream(r *slotdata.Reader, k *slotdata.Key) error {
	m, err := cf.DecodeStreamMeta(k.Tail)
	if err != nil {
		return err
	}
	var fields [][]byte
	err = r.Elements(k, func(e *slotdata.Element) error {
		id, ok := cf.ParseStreamEntrySub(e.Sub)
		if !ok {
			return nil
		}
		if fields, err = cf.DecodeStreamEntry(fields[:0], e.Value); err != nil {
			return err
		}
		c.begin("XADD", k.Name)
		c.arg(stream.AppendID(nil, id))
		for _, f := range fields {
			c.arg(f)
		}
		return c.end()
	})
	if err != nil {
		return err
	}
	return c.one("XSETID", k.Name, stream.AppendID(nil, m.LastGenerated), []byte("ENTRIESADDED"),
		strconv.AppendUint(nil, m.EntriesAdded, 10), []byte("MAXDELETEDID"), stream.AppendID(nil, m.MaxDeleted))
}

// records sends a key by APPLYBATCH.
func (c *commander) records(r *slotdata.Reader, k *slotdata.Key) error {
	log := logOf(k.Meta.Type)
	c.put(cf.Metadata, k.NSKey, k.Record, log)
	err := r.Elements(k, func(e *slotdata.Element) error {
		c.put(e.Family, e.Key, e.Value, log)
		return c.batchFull()
	})
	if err != nil {
		return err
	}
	return c.batchEnd()
}

// dropElements begins the batch with the deletion of all elements of a key. DEL leaves them to compactions, so without
// it those that the source no longer has would be back with the metadata record, which has the same version.
func (c *commander) dropElements(k *slotdata.Key) {
	if k.Meta.Type.SingleRecord() {
		return
	}
	begin := cf.AppendSubkeyPrefix(nil, k.NSKey, true, k.Meta.Version)
	end, _ := cf.AppendSuccessor(nil, begin)
	c.batch.LogData(logOf(k.Meta.Type))
	c.batch.DeleteRange(k.Meta.Type.Family(), begin, end)
}

func (c *commander) put(id cf.ID, key, value, log []byte) {
	if c.batch.Empty() {
		c.batch.LogData(log)
	}
	c.batch.Put(id, key, value)
}

func (c *commander) batchFull() error {
	if c.batch.Len() < c.Settings().BatchBytes {
		return nil
	}
	return c.batchEnd()
}

func (c *commander) batchEnd() error {
	if c.batch.Empty() {
		return nil
	}
	err := c.one("APPLYBATCH", c.batch.Bytes())
	c.batch.Reset()
	return err
}
