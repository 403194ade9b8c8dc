package command

import (
	"errors"
	"math"
	"strconv"
	"time"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/list"
	"github.com/basaltdb/basalt/engine/zset"
	"github.com/basaltdb/basalt/server/resp"
)

const blockingFlags = Write | Blocking

var blockingCommands = []Spec{
	{Name: "blpop", Handler: blpop, Arity: -3, Flags: blockingFlags},
	{Name: "brpop", Handler: brpop, Arity: -3, Flags: blockingFlags},
	{Name: "blmove", Handler: blmove, Arity: 6, Flags: blockingFlags | DenyOOM},
	{Name: "brpoplpush", Handler: brpoplpush, Arity: 4, Flags: blockingFlags | DenyOOM},
	{Name: "blmpop", Handler: blmpop, Arity: -5, Flags: blockingFlags | MovableKeys, Keys: numKeysAt(2, true)},
	{Name: "bzpopmin", Handler: bzpopmin, Arity: -3, Flags: blockingFlags | Fast},
	{Name: "bzpopmax", Handler: bzpopmax, Arity: -3, Flags: blockingFlags | Fast},
	{Name: "bzmpop", Handler: bzmpop, Arity: -5, Flags: blockingFlags | MovableKeys, Keys: numKeysAt(2, true)},
}

// The errors of the handler of a blocking command that is tried again for a blocked client.
var (
	// ErrNotReady: there is still no data.
	ErrNotReady = errors.New("still nothing to reply")
	// ErrNeedLocks: there may be data, but a lock is missing, and waiting for it is not allowed here.
	ErrNeedLocks = errors.New("more locks are needed")
)

var (
	errSeconds         = engine.NewError("ERR", "timeout is not a float or out of range")
	errSecondsRange    = engine.NewError("ERR", "timeout is out of range")
	errSecondsNegative = engine.NewError("ERR", "timeout is negative")
)

// Wait describes the data that a client waits for.
type Wait struct {
	Args    [][]byte // the command to try again when a key has changed
	Keys    [][]byte
	Timeout time.Duration // 0 = for ever
	Type    cf.Type       // what the keys must hold
	// Gone: the command is also tried when a key is deleted or changes its type.
	Gone bool
	// Enough, unless it is nil, is called when a replica has acknowledged more writes: if it returns true, the
	// command is tried.
	Enough func() bool
	// Null writes the reply after the timeout.
	Null func(*resp.Writer)
}

// parseTimeout reads a timeout in seconds, optionally with a fraction; 0 = for ever. As in Redis, it is rounded up to
// milliseconds before it is checked: -0.0001 is 0. The time at which it ends must fit into 64 bits.
func parseTimeout(arg []byte) (time.Duration, error) {
	f, ok := ParseFloat(arg)
	if !ok {
		var err error
		if f, err = strconv.ParseFloat(string(arg), 64); !errors.Is(err, strconv.ErrRange) {
			return 0, errSeconds
		}
	}
	ms := math.Ceil(f * 1000)
	switch {
	case ms > float64(math.MaxInt64-time.Now().UnixMilli()):
		return 0, errSecondsRange
	case ms < 0:
		return 0, errSecondsNegative
	}
	return time.Duration(min(ms, 1e12)) * time.Millisecond, nil // 1e12 are more than thirty years
}

// firstReady calls try with the keys in their order until a try has replied. Without a reply the client waits for one
// of the keys; inside EXEC or a script it gets the reply that denied writes.
func firstReady(c *Ctx, w Wait, denied func(*resp.Writer), try func(key []byte) (done bool, err error)) error {
	for _, key := range w.Keys {
		if c.Retry {
			if !c.Tx.Holds(key) {
				continue
			}
			if rec, err := c.Tx.LoadHead(key); err != nil || !rec.Exists || rec.Type != w.Type {
				continue
			}
		}
		if done, err := try(key); done || err != nil {
			return err
		}
	}
	switch {
	case c.Retry:
		return ErrNotReady
	case c.NoBlock:
		denied(c.Out)
		return nil
	}
	if w.Args == nil {
		w.Args = c.Args
	}
	return c.Sess.Control.Block(w)
}

func nullArray(w *resp.Writer) { w.NullArray() }

func null(w *resp.Writer) { w.Null() }

func blpop(c *Ctx) error { return blockingPop(c, true) }

func brpop(c *Ctx) error { return blockingPop(c, false) }

func blockingPop(c *Ctx, left bool) error {
	last := len(c.Args) - 1
	timeout, err := parseTimeout(c.Args[last])
	if err != nil {
		return err
	}
	w := Wait{Keys: c.Args[1:last], Timeout: timeout, Type: cf.TypeList, Null: nullArray}
	return firstReady(c, w, nullArray, func(key []byte) (found bool, err error) {
		err = list.Pop(c.Tx, key, 1, left, func(n uint64) {
			found = true
			c.Out.Array(2)
			c.Out.Bulk(key)
		}, c.Out.Bulk)
		return found, err
	})
}

func blmove(c *Ctx) error {
	fromLeft, toLeft, err := ends(c)
	if err != nil {
		return err
	}
	return blockingMove(c, fromLeft, toLeft, c.Args[5])
}

func brpoplpush(c *Ctx) error { return blockingMove(c, false, true, c.Args[3]) }

func blockingMove(c *Ctx, fromLeft, toLeft bool, timeoutArg []byte) error {
	timeout, err := parseTimeout(timeoutArg)
	if err != nil {
		return err
	}
	w := Wait{Keys: c.Args[1:2], Timeout: timeout, Type: cf.TypeList, Null: nullArray}
	return firstReady(c, w, null, func(key []byte) (bool, error) {
		if c.Retry && !c.Tx.TryLock(c.Args[2]) {
			return false, ErrNeedLocks
		}
		elem, found, err := list.Move(c.Tx, key, c.Args[2], fromLeft, toLeft)
		if found && err == nil {
			c.MarkRewrote()
			c.Out.Bulk(elem)
		}
		return found, err
	})
}

func blmpop(c *Ctx) error { return bmpop(c, "LEFT", "RIGHT", cf.TypeList, popList) }

func bzpopmin(c *Ctx) error { return blockingZPop(c, false) }

func bzpopmax(c *Ctx) error { return blockingZPop(c, true) }

func blockingZPop(c *Ctx, highest bool) error {
	last := len(c.Args) - 1
	timeout, err := parseTimeout(c.Args[last])
	if err != nil {
		return err
	}
	w := Wait{Keys: c.Args[1:last], Timeout: timeout, Type: cf.TypeZSet, Null: nullArray}
	return firstReady(c, w, nullArray, func(key []byte) (found bool, err error) {
		err = zset.Pop(c.Tx, key, 1, highest, func(member []byte, score float64) {
			found = true
			c.Out.Array(3)
			c.Out.Bulk(key)
			c.Out.Bulk(member)
			c.Out.Double(score)
		})
		return found, err
	})
}

func bzmpop(c *Ctx) error { return bmpop(c, "MIN", "MAX", cf.TypeZSet, popZSet) }

// clientUnblock is CLIENT UNBLOCK: the client gets the reply for a timeout, or an error.
func clientUnblock(c *Ctx) error {
	withError := false
	if len(c.Args) > 3 {
		switch {
		case len(c.Args) > 4:
			return unknownSubcommandOrArgs(c)
		case EqualFold(c.Args[3], "TIMEOUT"):
		case EqualFold(c.Args[3], "ERROR"):
			withError = true
		default:
			return engine.NewError("ERR", "CLIENT UNBLOCK reason should be TIMEOUT or ERROR")
		}
	}
	id, ok := ParseInt(c.Args[2])
	if !ok {
		return ErrNotInteger
	}
	for _, i := range visible(c) {
		if i.ID == id {
			return replyBool(c, c.Srv.Clients.Unblock(id, withError), nil)
		}
	}
	return replyBool(c, false, nil)
}
