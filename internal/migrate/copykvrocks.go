package migrate

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine/batch"
	"github.com/basaltdb/basalt/internal/transfer"
	"github.com/basaltdb/basalt/server/replication/lineconn"
	"github.com/basaltdb/basalt/server/replication/proto"
)

// place is the position of a copy in the log of a Kvrocks or basalt.
type place struct {
	next uint64 // the sequence number of the next write
	id   string // the replication id of the write before, "" = unknown
}

// parsePlace parses the stored form, without its kind. ok is false when the place belongs to another source: without
// use-rsid-psync only the stored source distinguishes one log from another.
func (c *copier) parsePlace(text string) (p place, ok bool) {
	words := strings.Split(text, " ")
	if len(words) < 2 || words[0] != c.from.addr.String() {
		return p, false
	}
	last, err := strconv.ParseUint(words[1], 10, 63)
	if len(words) > 2 {
		p.id = words[2]
	}
	p.next = last + 1
	return p, err == nil
}

// placeText returns the stored form.
func (c *copier) placeText(p place) string {
	return strings.TrimSpace(fmt.Sprintf("%s %s %d %s", positionKvrocks, c.from.addr, p.next-1, p.id))
}

// errNoLog: the source's log does not reach back to the position of the copy.
var errNoLog = errors.New("the source no longer has the writes that the copy lacks")

// followKvrocks copies as a replica of a Kvrocks or basalt.
func (c *copier) followKvrocks(ctx context.Context) error {
	kind, rest, err := c.position()
	if err != nil {
		return err
	}
	if at, ok := c.parsePlace(rest); ok && kind == positionKvrocks {
		if err := c.follow(ctx, at); !errors.Is(err, errNoLog) {
			return err
		}
	}
	at, err := c.copyAll()
	if err != nil {
		return err
	}
	if err = c.follow(ctx, at); errors.Is(err, errNoLog) {
		return finalError{fmt.Errorf("%w, although the copy is new: see rocksdb.wal_ttl_seconds: %w", errNoLog, err)}
	}
	return err
}

// copyAll copies all keys. The returned place is that of the beginning, so changes during the copy follow.
func (c *copier) copyAll() (p place, err error) {
	if err = c.restart(); err != nil {
		return p, err
	}
	last, err := c.from.offset()
	if err != nil {
		return p, err
	}
	p.next = uint64(last) + 1
	sizes, err := c.from.databases()
	if err != nil {
		return p, err
	}
	if db := c.from.addr.DB; db != 0 {
		sizes = map[int]int64{db: sizes[db]}
	} else if sizes[0] == 0 {
		sizes[0] = 0 // Kvrocks does not know its number of keys
	}
	total := int64(0)
	for _, n := range sizes {
		total += n
	}
	c.total.Store(total)
	for _, db := range sortedKeys(sizes) {
		src, err := c.source(db)
		if err != nil {
			return p, err
		}
		err = src.scan(func(names []string) error {
			c.moved.Add(int64(len(names)))
			return c.copyKeys(inDB(db, names))
		})
		if err != nil {
			return p, err
		}
	}
	if err := c.copyFunctions(); err != nil {
		return p, err
	}
	return p, c.setPosition(c.placeText(p))
}

// streamTimeout is the max time without data from the source, which sends pings, and the max time for sending an
// acknowledgement.
const streamTimeout = time.Minute

// follow copies changes. It acknowledges only what the target has.
func (c *copier) follow(ctx context.Context, at place) error {
	addr := c.from.addr
	addr.DB = 0
	conn, err := transfer.Dial(ctx, addr)
	if err != nil {
		return fmt.Errorf("%s: %w", addr, err)
	}
	l := lineconn.Stream{Conn: lineconn.New(ctx, conn.Conn, nil)} // nothing comes without a request
	defer l.Close()
	requests := [][]byte{proto.AppendDBName(nil), proto.AppendConf(nil, proto.Conf{Port: 1}),
		proto.AppendCapa(nil, false)}
	for _, request := range requests {
		if _, err := l.Ask(request, proto.MaxLine, streamTimeout); err != nil { // an old Kvrocks knows no capabilities
			return err
		}
	}
	line, err := l.Ask(proto.AppendPSync(nil, proto.PSync{ID: at.id, Next: at.next}), proto.MaxLine, streamTimeout)
	if err != nil {
		return err
	}
	if err := proto.CheckOK(line); err != nil {
		reply, ok := errors.AsType[proto.ReplyError](err)
		if ok && (reply.Loading() || strings.HasPrefix(string(reply), "NO")) {
			return err // NOAUTH, NOPERM
		}
		return fmt.Errorf("%w: %w", errNoLog, err)
	}
	c.trouble.Store(nil)
	r := c.begin(int64(at.next - 1))
	c.stage.Store(streaming)
	return r.stop(c.stream(&l, at, r))
}

// stream passes the batches of the stream to the rounds.
func (c *copier) stream(l *lineconn.Stream, at place, r *rounds) error {
	acked, asked := time.Now(), false
	ch, end := &changes{seen: map[key]bool{}}, at
	for {
		f, ok, err := l.Frame()
		if err != nil {
			return err
		}
		if ok {
			switch f.Kind {
			case proto.KindBatch:
				if err := c.noteBatch(ch, &end, &f); err != nil {
					return err
				}
			case proto.KindGetAck:
				asked = true
			}
			continue
		}
		if end != at {
			if err := r.add(ch, c.placeText(end), int64(end.next-1)); err != nil {
				return err
			}
			at = end
			ch = &changes{seen: map[key]bool{}}
			r.taken.Store(int64(at.next - 1))
		}
		if asked || time.Since(acked) > ackEvery {
			acked, asked = time.Now(), false
			l.SetWriteDeadline(acked.Add(streamTimeout))
			if _, err := l.Write(proto.AppendAck(nil, uint64(r.applied()))); err != nil {
				return err
			}
		}
		if err := l.Fill(streamTimeout); err != nil {
			return err
		}
	}
}

// noteBatch adds the keys that a batch changes.
func (c *copier) noteBatch(ch *changes, end *place, f *proto.Frame) error {
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
			if id, err := cf.ParseLogData(rec.Value); err == nil && id != nil {
				end.id = string(id)
			}
			continue
		}
		switch rec.Family {
		case cf.Metadata:
			if rec.Kind == batch.DeleteRange {
				noteRange(ch, rec.Key, rec.Value)
			} else {
				err = c.noteKey(ch, rec.Key)
			}
		case cf.Default, cf.ZSetScore, cf.Stream:
			var nsKey []byte
			if rec.Kind == batch.DeleteRange {
				break // the metadata record names the key of these subkeys
			}
			if nsKey, err = cf.AppendNSKeyOf(nil, rec.Key, false); err == nil {
				err = c.noteKey(ch, nsKey)
			}
		case cf.Propagate:
			ch.functions = ch.functions || rec.Kind == batch.DeleteRange ||
				strings.HasPrefix(string(rec.Key), cf.PropagateLibrary)
		}
		if err != nil {
			return err
		}
	}
	end.next = f.Sequence() + uint64(f.Count())
	return r.Err()
}

func (c *copier) noteKey(ch *changes, nsKey []byte) error {
	ns, name, err := cf.SplitNSKey(nsKey, false)
	if err != nil {
		return err
	}
	if db, ok := cf.NamespaceDatabase(string(ns)); ok {
		ch.add(key{db, string(name)})
	} else {
		c.left.other("other namespaces", string(ns))
	}
	return nil
}

// databasesTried is the max number of databases that a range of keys is compared with.
const databasesTried = 1024

// noteRange handles the deletion of all keys of namespaces: FLUSHDB, FLUSHALL. No source that can be followed key by
// key deletes a part of a namespace as a range.
func noteRange(ch *changes, begin, end []byte) {
	n := len(ch.flushed)
	for db := range databasesTried {
		prefix := cf.AppendNSPrefix(nil, cf.DatabaseNamespace(db))
		after, _ := cf.AppendSuccessor(nil, prefix)
		switch {
		case string(begin) <= string(prefix) && string(after) <= string(end):
			ch.flushed = append(ch.flushed, db)
		case string(prefix) < string(end) && string(begin) < string(after):
			ch.again = fmt.Errorf("a part of database %d was deleted at once: %w", db, errAgain)
		}
	}
	if len(ch.flushed)-n == databasesTried {
		ch.flushed = append(ch.flushed[:n], -1)
	}
}
