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
	{Name: "blpop", Handler: blockingPop(true), Arity: -3, Flags: blockingFlags},
	{Name: "brpop", Handler: blockingPop(false), Arity: -3, Flags: blockingFlags},
	{Name: "blmove", Handler: blmove, Arity: 6, Flags: blockingFlags | DenyOOM},
	{Name: "blmovem", Handler: blmovem, Arity: -6, Flags: blockingFlags | DenyOOM},
	{Name: "brpoplpush", Handler: brpoplpush, Arity: 4, Flags: blockingFlags | DenyOOM},
	{Name: "blmpop", Handler: bmpop("LEFT", "RIGHT", cf.TypeList, popList), Arity: -5,
		Flags: blockingFlags | MovableKeys, Keys: numKeysAt(2, true)},
	{Name: "bzpopmin", Handler: blockingZPop(false), Arity: -3, Flags: blockingFlags | Fast},
	{Name: "bzpopmax", Handler: blockingZPop(true), Arity: -3, Flags: blockingFlags | Fast},
	{Name: "bzmpop", Handler: bmpop("MIN", "MAX", cf.TypeZSet, popZSet), Arity: -5,
		Flags: blockingFlags | MovableKeys, Keys: numKeysAt(2, true)},
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
	errTimeoutInteger  = engine.NewError("ERR", "timeout is not an integer or out of range")
	errTimeoutNegative = engine.NewError("ERR", "timeout is negative")
	errTimeoutRange    = engine.NewError("ERR", "timeout is out of range")
)

// Wait describes the data that a client waits for.
type Wait struct {
	Args    [][]byte // the command to try again when a key has changed
	Keys    [][]byte
	Timeout time.Duration // 0 = for ever
	Type    cf.Type       // what the keys must hold
	// Gone: the command is also tried when a key is deleted or changes its type.
	Gone bool
	// Again is after what time the command is tried again although nothing was written; 0 = never. A try that finds
	// nothing sets it anew, or leaves it.
	Again time.Duration
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
		return 0, errTimeoutRange
	case ms < 0:
		return 0, errTimeoutNegative
	}
	return time.Duration(min(ms, float64(longestWait.Milliseconds()))) * time.Millisecond, nil
}

// longestWait stands for all longer timeouts.
const longestWait = 30 * 365 * 24 * time.Hour

// parseMillis reads a timeout in milliseconds; 0 = for ever. The time at which it ends must fit into 64 bits.
func parseMillis(arg []byte) (time.Duration, error) {
	ms, ok := ParseInt(arg)
	switch {
	case !ok:
		return 0, errTimeoutInteger
	case ms < 0:
		return 0, errTimeoutNegative
	case ms > math.MaxInt64-time.Now().UnixMilli():
		return 0, errTimeoutRange
	}
	return time.Duration(min(ms, math.MaxInt64/int64(time.Millisecond))) * time.Millisecond, nil
}

// firstReady calls try with the keys in their order until a try has replied. Without a reply the client waits until one
// of the keys is of a type, or the timeout has passed; inside EXEC or a script it gets the reply that denied writes.
func firstReady(c *Ctx, keys [][]byte, t cf.Type, timeoutArg []byte, denied func(*resp.Writer),
	try func(key []byte) (done bool, err error)) error {
	timeout, err := parseTimeout(timeoutArg)
	if err != nil {
		return err
	}
	for _, key := range keys {
		if c.Retry {
			if !c.Tx.Holds(key) {
				continue
			}
			if rec, err := c.Tx.LoadHead(key); err != nil || !rec.Exists || rec.Type != t {
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
	return c.Sess.Control.Block(Wait{Args: c.Args, Keys: keys, Timeout: timeout, Type: t, Null: nullArray})
}

func nullArray(w *resp.Writer) { w.NullArray() }

func null(w *resp.Writer) { w.Null() }

func blockingPop(left bool) Handler {
	return func(c *Ctx) error {
		last := len(c.Args) - 1
		return firstReady(c, c.Args[1:last], cf.TypeList, c.Args[last], nullArray, func(key []byte) (found bool, err error) {
			err = list.Pop(c.Tx, key, 1, left, func(n uint64) {
				found = true
				c.Out.Array(2)
				c.Out.Bulk(key)
			}, c.Out.Bulk)
			return found, err
		})
	}
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
	return firstReady(c, c.Args[1:2], cf.TypeList, timeoutArg, null, func(key []byte) (bool, error) {
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

func blockingZPop(highest bool) Handler {
	return func(c *Ctx) error {
		last := len(c.Args) - 1
		return firstReady(c, c.Args[1:last], cf.TypeZSet, c.Args[last], nullArray, func(key []byte) (found bool, err error) {
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
}

// clientUnblock is CLIENT UNBLOCK: the client gets the reply for a timeout, or an error.
func clientUnblock(c *Ctx) error {
	withError := false
	if len(c.Args) > 3 {
		switch {
		case len(c.Args) > 4:
			return wrongSubcommand(c)
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
