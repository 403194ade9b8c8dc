package command

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/stream"
)

var streamReadCommands = []Spec{
	{Name: "xread", Handler: xread, Arity: -4, Flags: ReadOnly | Blocking | MovableKeys, Keys: streamKeys(false),
		Blocks: saysBlock},
	{Name: "xreadgroup", Handler: xread, Arity: -7, Flags: Write | Blocking | MovableKeys, Keys: streamKeys(true),
		Blocks: saysBlock},
}

var (
	errGroupInRead  = engine.NewError("ERR", "The GROUP option is only supported by XREADGROUP. You called XREAD instead.")
	errNoAckInRead  = engine.NewError("ERR", "The NOACK option is only supported by XREADGROUP. You called XREAD instead.")
	errMissingGroup = engine.NewError("ERR", "Missing GROUP option for XREADGROUP")
	errLastInGroup  = engine.NewError("ERR",
		"The $ ID is meaningless in the context of XREADGROUP: you want to read the history of this "+
			"consumer by specifying a proper ID, or use the > ID to get new messages. The $ ID would just return an empty "+
			"result set.")
	errPlusInGroup = engine.NewError("ERR",
		"The + ID is meaningless in the context of XREADGROUP: you want to read the history of this "+
			"consumer by specifying a proper ID, or use the > ID to get new messages. The + ID would just return an empty "+
			"result set.")
	errClaimInRead = engine.NewError("ERR",
		"The CLAIM option is only supported by XREADGROUP. You called XREAD instead.")
	errClaimInteger  = engine.NewError("ERR", "min-idle-time is not an integer or out of range")
	errClaimNegative = engine.NewError("ERR", "min-idle-time must be a positive integer")
	errMaxCount      = engine.NewError("ERR", "MAXCOUNT must be a positive integer")
	errMaxSize       = engine.NewError("ERR", "MAXSIZE must be a positive integer")
	errMaxBelowCount = engine.NewError("ERR", "MAXCOUNT must be greater than or equal to COUNT")
	errNewInRead     = engine.NewError("ERR",
		"The > ID can be specified only when calling XREADGROUP using the GROUP <group> <consumer> option.")
)

// streamRead is a parsed XREAD or XREADGROUP. It refers to the arguments of the command.
type streamRead struct {
	grouped         bool // XREADGROUP
	group, consumer []byte
	noAck           bool
	claim           bool   // entries that are pending for minIdle milliseconds come first
	minIdle         int64  // of claim
	count           uint64 // entries of each stream at most; 0 = all
	maxCount        uint64 // entries of all streams together at most; 0 = all
	maxSize         uint64 // no entry follows after so many bytes of the reply; 0 = no bound
	blocks          bool   // wait for entries if there are none
	timeout         time.Duration
	keys            [][]byte
	at              int      // index of the first key among the arguments
	ids             [][]byte // as given
	// IDs after which entries are read, once resolved; MaxID = entries new to the group
	after  []stream.ID
	groups []*stream.Group // what resolve has opened for serve, which forgets it
	again  time.Duration   // after which entries may be idle for long enough, if serve has found none; 0 = never
}

// parseStreamRead parses the arguments of XREAD and XREADGROUP, except the IDs.
func parseStreamRead(args [][]byte, name string, grouped bool) (r streamRead, err error) {
	r.grouped = grouped
	var count, maxCount, maxSize int64
	o := options{args: args[1:]}
	for o.more() && r.at == 0 {
		switch {
		case o.has("BLOCK", 1):
			r.timeout, o.err = parseMillis(o.next())
			r.blocks = true
		case o.int("COUNT", &count):
			r.count = uint64(max(count, 0))
		case o.int("MAXCOUNT", &maxCount):
			o.check(maxCount > 0, errMaxCount)
			r.maxCount = uint64(maxCount)
		case o.int("MAXSIZE", &maxSize):
			o.check(maxSize > 0, errMaxSize)
			r.maxSize = uint64(maxSize)
		case o.has("CLAIM", 1):
			o.check(grouped, errClaimInRead)
			r.minIdle, r.claim = ParseInt(o.next())
			o.check(r.claim, errClaimInteger)
			o.check(r.minIdle >= 0, errClaimNegative)
		case o.has("STREAMS", 1):
			if len(o.args)%2 != 0 {
				last := '$'
				if grouped {
					last = '>'
				}
				return r, errorf("Unbalanced '%s' list of streams: for each stream key an ID or '%c' must be specified.",
					name, last)
			}
			half := len(o.args) / 2
			r.at, r.keys, r.ids = len(args)-len(o.args), o.args[:half], o.args[half:]
		case o.has("GROUP", 2):
			o.check(grouped, errGroupInRead)
			r.group, r.consumer = o.next(), o.next()
		case o.flag("NOACK", &r.noAck):
			o.check(grouped, errNoAckInRead)
		default:
			o.err = ErrSyntax
		}
	}
	switch {
	case o.err != nil:
		return r, o.err
	case r.at == 0:
		return r, ErrSyntax
	case grouped && r.group == nil:
		return r, errMissingGroup
	case r.maxCount > 0 && r.count > r.maxCount:
		return r, errMaxBelowCount
	}
	return r, nil
}

// saysBlock reports whether XREAD or XREADGROUP may have the option BLOCK: the word may also be a name.
func saysBlock(args [][]byte) bool {
	return slices.ContainsFunc(args[1:], func(arg []byte) bool { return EqualFold(arg, "BLOCK") })
}

func streamKeys(grouped bool) keyFinder {
	return func(args [][]byte, add func(argIndex int, write bool)) error {
		r, err := parseStreamRead(args, "", grouped)
		for i := range r.keys {
			add(r.at+i, grouped)
		}
		return err
	}
}

// xread is XREAD and XREADGROUP. It replies with the available entries. Without entries, a client with BLOCK waits.
func xread(c *Ctx) error {
	r, err := parseStreamRead(c.Args, c.Spec.FullName(), c.Spec.Name == "xreadgroup")
	if err != nil {
		return err
	}
	if r.blocks && c.InScript {
		return errorf("%s command is not allowed with BLOCK option from scripts", echoed(c.Args[0]))
	}
	if c.Retry {
		if err := r.narrow(c); err != nil {
			return err
		}
	}
	if err := r.resolve(c); err != nil {
		return err
	}
	served, err := r.serve(c)
	switch {
	case served || err != nil:
		return err
	case c.Retry:
		if r.again > 0 {
			c.Waited.Again = r.again
		}
		return ErrNotReady
	case !r.blocks || c.NoBlock:
		c.Out.NullArray()
		return nil
	}
	return c.Sess.Control.Block(r.wait(c))
}

// narrow leaves the streams that may be read when the command is tried again. Those are the ones that are locked: by
// who has written to them, for writing, or all of them by the client itself, for reading. XREAD waits on for keys of
// another type, where XREADGROUP fails.
func (r *streamRead) narrow(c *Ctx) error {
	some := slices.ContainsFunc(r.keys, c.Tx.Holds)
	var keys, ids [][]byte
	for i, key := range r.keys {
		if some && !c.Tx.Holds(key) {
			continue
		}
		if !r.grouped {
			rec, err := c.Tx.LoadHead(key)
			if err != nil {
				return err
			}
			if rec.Exists && rec.Type != cf.TypeStream {
				continue
			}
		}
		keys, ids = append(keys, key), append(ids, r.ids[i])
	}
	r.keys, r.ids = keys, ids
	return nil
}

// wait is what the client waits for. The command that is tried again then has an id in the place of each $ and +.
func (r *streamRead) wait(c *Ctx) Wait {
	args := slices.Clone(c.Args)
	for i, id := range r.ids {
		if string(id) == "$" || string(id) == "+" {
			args[r.at+len(r.keys)+i] = stream.AppendID(nil, r.after[i])
		}
	}
	return Wait{Args: args, Keys: r.keys, Timeout: r.timeout, Type: cf.TypeStream, Gone: r.grouped, Null: nullArray,
		Again: r.again}
}

// minAgain bounds how often a blocked client looks for idle entries while it knows of none that will become idle.
const minAgain = 100 * time.Millisecond

// waitForIdle notes when entries of a group may be idle for long enough.
func (r *streamRead) waitForIdle(g *stream.Group) {
	ms, known := g.NextIdle(r.minIdle)
	wait := time.Duration(min(ms, longestWait.Milliseconds())) * time.Millisecond
	if !known {
		wait = max(wait, minAgain)
	}
	if r.again == 0 || wait < r.again {
		r.again = wait
	}
}

// resolve reads the ids, of which $ is the last one that a stream has had at this moment, and + (of Redis 7.4) the one
// before the last entry, and checks that the keys
// are streams that have the group.
func (r *streamRead) resolve(c *Ctx) error {
	r.after = make([]stream.ID, len(r.keys))
	if r.grouped {
		r.groups = make([]*stream.Group, len(r.keys))
	}
	for i, key := range r.keys {
		var last stream.ID
		var err error
		if r.grouped {
			r.groups[i], err = r.open(c, key)
		} else {
			last, err = stream.LastGenerated(c.Tx, key)
		}
		if err != nil {
			return err
		}
		switch id := string(r.ids[i]); {
		case id == "$" && r.grouped:
			return errLastInGroup
		case id == "$":
			r.after[i] = last
		case id == "+" && r.grouped:
			return errPlusInGroup
		case id == "+": // the last entry; in an empty stream the next entry
			info, _, err := stream.About(c.Tx, key)
			if err != nil {
				return err
			}
			if r.after[i] = last; info.Length > 0 {
				r.after[i], _ = stream.Prev(info.Last)
			}
		case id == ">" && !r.grouped:
			return errNewInRead
		case id == ">":
			r.after[i] = stream.MaxID
		default:
			if r.after[i], err = stream.ParseID(r.ids[i], 0); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *streamRead) open(c *Ctx, key []byte) (*stream.Group, error) {
	g, err := stream.OpenGroup(c.Tx, key, r.group)
	if err == nil && g == nil {
		err = noGroup("No such key '%s' or consumer group '%s' in XREADGROUP with GROUP option", key, r.group)
	}
	tellOfConsumers(c, g, key)
	return g, err
}

// noGroup is the error for a group that is not there. Names end at a zero byte, as in Redis.
func noGroup(format string, names ...[]byte) error {
	args := make([]any, len(names))
	for i, n := range names {
		args[i] = cString(n)
	}
	return engine.NewError("NOGROUP", fmt.Sprintf(format, args...))
}

// serve writes the reply if any of the streams has something to return, and reports whether that was so. The locks
// of the keys must be held.
func (r *streamRead) serve(c *Ctx) (bool, error) {
	w := c.Out
	outer, served, entries := w.Mark(), 0, uint64(0)
	room := func() bool { // for another entry
		return entries == 0 || (r.maxCount == 0 || entries < r.maxCount) &&
			(r.maxSize == 0 || uint64(w.Len()-outer) < r.maxSize)
	}
	for i := 0; i < len(r.keys) && room(); i++ {
		key, count := r.keys[i], r.count
		if left := r.maxCount - entries; r.maxCount > 0 && (count == 0 || count > left) {
			count = left
		}
		inner, before, claims := 0, entries, r.claim && r.after[i] == stream.MaxID
		begin := func() {
			served++
			if w.Proto != 3 {
				w.Array(2)
			}
			w.Bulk(key)
			inner = w.Mark()
		}
		entry := func(e *stream.Entry, d stream.Delivered) bool {
			if !claims {
				writeEntry(w, e)
			} else {
				writeLongEntry(w, e, 4)
				w.Int(d.Idle)
				w.Int(int64(d.Times))
			}
			entries++
			return room()
		}
		var any bool
		var err error
		switch {
		case !r.grouped:
			any, err = stream.After(c.Tx, key, r.after[i], count, begin, func(e *stream.Entry) bool {
				return entry(e, stream.Delivered{})
			})
		default:
			var g *stream.Group
			if g, err = r.take(c, i); err != nil {
				return false, err
			}
			if r.after[i] == stream.MaxID {
				any, err = r.serveNew(c, g, count, begin, entry)
				break
			}
			begin()
			any = true
			err = g.History(r.consumer, r.after[i], count, func(id stream.ID, e *stream.Entry) bool {
				if e != nil {
					return entry(e, stream.Delivered{})
				}
				w.Array(2) // it was deleted
				writeID(w, id)
				w.NullArray()
				entries++
				return room()
			})
		}
		if err != nil {
			return false, err
		}
		if any {
			w.InsertArray(inner, int(entries-before))
		}
	}
	if served == 0 {
		return false, nil
	}
	if w.Proto == 3 {
		w.InsertMap(outer, served)
	} else {
		w.InsertArray(outer, served)
	}
	return true, nil
}

// serveNew serves a stream of which the consumer wants new entries, and with CLAIM idle ones before them.
func (r *streamRead) serveNew(c *Ctx, g *stream.Group, count uint64, begin func(),
	entry func(e *stream.Entry, d stream.Delivered) bool) (any bool, err error) {
	ready := !c.Retry || g.HasNew() // in a retry, that the consumer asks was noted when it began to wait
	if !ready && r.claim {
		ready, err = g.HasIdle(r.minIdle)
	}
	if ready && err == nil {
		o := stream.ReadOptions{Count: count, NoAck: r.noAck, Claim: r.claim, MinIdle: r.minIdle}
		any, err = g.Read(r.consumer, &o, begin, entry)
	}
	if r.claim && !any && err == nil {
		r.waitForIdle(g)
	}
	return any, err
}

// take returns the group of a stream: the one that resolve has opened, unless it was written to since then because
// the same key comes twice.
func (r *streamRead) take(c *Ctx, i int) (*stream.Group, error) {
	g := r.groups[i]
	r.groups[i] = nil
	for _, before := range r.keys[:i] {
		if bytes.Equal(before, r.keys[i]) {
			g = nil
		}
	}
	if g != nil {
		return g, nil
	}
	return r.open(c, r.keys[i])
}
