package redislink

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/basaltdb/basalt/server/resp"
)

// Command is a command of the stream for one database. Its arguments are valid until the target has applied it.
type Command struct {
	DB   int
	Args [][]byte
}

// Unit is applied as a whole or not at all: one command, or the commands of a transaction.
type Unit struct {
	End   int   // end of its commands within those of the group; they begin at the end of the previous unit
	After State // the state after the unit
}

// Group is a series of units that have arrived together.
type Group struct {
	Commands []Command
	Units    []Unit
	args     [][]byte // of the commands
}

// Reset empties the group.
func (g *Group) Reset() {
	clear(g.args)
	clear(g.Commands)
	g.args, g.Commands, g.Units = g.args[:0], g.Commands[:0], g.Units[:0]
}

// ErrStream: the master sends something other than a stream of commands.
var ErrStream = errors.New("the stream of the master is not understood")

// Event is the result of Stream.Next.
type Event uint8

// The events.
const (
	Incomplete Event = iota // more bytes are needed
	Nothing                 // something that changes at most the state: PING, SELECT, a part of a transaction
	Complete                // a complete unit
	AckWanted               // the master wants to know the offset
)

// Stream splits the stream of a master into units. It works on a buffer that the caller owns.
type Stream struct {
	dec   resp.Decoder
	state State // after the last unit
	pos   int64 // the offset of the next byte; beyond the offset of state inside a transaction
	db    int   // selected

	multi bool
	queue []Command // commands of the current transaction
}

func NewStream(s State) *Stream {
	d := &Stream{state: s, pos: s.Offset, db: s.DB}
	// The master has accepted these commands from its clients.
	d.dec.Limits = resp.Limits{MaxArgs: math.MaxInt32, MaxBulk: math.MaxInt32}
	return d
}

// State returns the state after the last unit, including what needs no unit.
func (d *Stream) State() State { return d.state }

// Need returns the min number of further bytes that Next needs.
func (d *Stream) Need() int { return d.dec.Need() }

// Next parses the beginning of buf, and returns the number of bytes used. It adds a completed unit to the group; the
// arguments of a unit without MULTI are parts of buf. After [Incomplete] the caller repeats the call with the same
// bytes and more.
func (d *Stream) Next(buf []byte, g *Group) (e Event, n int, err error) {
	if len(buf) == 0 {
		return Incomplete, 0, nil
	}
	if buf[0] == '\n' { // a keepalive, which counts in the offset once the stream has begun
		d.pass(1)
		return Nothing, 1, nil
	}
	if buf[0] != '*' {
		return 0, 0, fmt.Errorf("%w: %.40q at offset %d", ErrStream, buf[:min(len(buf), 40)], d.pos)
	}
	from := len(g.args)
	all, n, err := d.dec.Next(buf, g.args)
	switch {
	case err != nil:
		return 0, 0, fmt.Errorf("%w: %w, at offset %d", ErrStream, err, d.pos)
	case n == 0:
		return Incomplete, 0, nil
	}
	args := all[from:len(all):len(all)]
	if len(args) == 0 {
		d.pass(n)
		return Nothing, n, nil
	}
	if e, err = d.command(args, n); err != nil || e != Complete {
		return e, n, err
	}
	if d.queue != nil {
		g.Commands = append(g.Commands, d.queue...)
		d.queue = nil
	} else {
		g.args = all
		g.Commands = append(g.Commands, Command{DB: d.db, Args: args})
	}
	g.Units = append(g.Units, Unit{End: len(g.Commands), After: d.state})
	return Complete, n, nil
}

// pass advances by n bytes that belong to no unit, or to a transaction.
func (d *Stream) pass(n int) {
	d.pos += int64(n)
	if !d.multi {
		d.state.Offset, d.state.DB = d.pos, d.db
	}
}

// command handles a command of n bytes.
func (d *Stream) command(args [][]byte, n int) (Event, error) {
	at := d.pos
	switch name := args[0]; {
	case is(name, "PING"):
	case is(name, "SELECT"):
		if len(args) != 2 {
			return 0, fmt.Errorf("%w: SELECT with %d arguments at offset %d", ErrStream, len(args)-1, at)
		}
		db, err := parseDB(string(args[1]))
		if err != nil {
			return 0, fmt.Errorf("%w: SELECT %.40q at offset %d", ErrStream, args[1], at)
		}
		d.db = db
	case is(name, "REPLCONF"):
		d.pass(n)
		if len(args) > 1 && is(args[1], "GETACK") {
			return AckWanted, nil
		}
		return Nothing, nil
	case is(name, "MULTI"):
		if !d.multi {
			d.multi, d.queue = true, []Command{}
		}
	case is(name, "EXEC"):
		if !d.multi {
			break // Redis 6.2 sends two for MULTI, XTRIM, EXEC; its replicas reply to the second with an error and ignore it
		}
		d.multi = false
		d.pass(n)
		return Complete, nil
	case d.multi:
		d.queue = append(d.queue, Command{DB: d.db, Args: keep(args)})
	default:
		d.pass(n)
		return Complete, nil
	}
	d.pass(n)
	return Nothing, nil
}

// is compares the name of a command, ignoring case.
func is(name []byte, want string) bool {
	return len(name) == len(want) && bytes.EqualFold(name, []byte(want))
}

// keep copies arguments.
func keep(args [][]byte) [][]byte {
	size := 0
	for _, a := range args {
		size += len(a)
	}
	kept, text := make([][]byte, len(args)), make([]byte, 0, size)
	for i, a := range args {
		from := len(text)
		text = append(text, a...)
		kept[i] = text[from:len(text):len(text)]
	}
	return kept
}

// Name returns the name of the command for messages.
func (c *Command) Name() string {
	const most = 40
	name := c.Args[0]
	return strings.ToUpper(strings.ToValidUTF8(string(name[:min(len(name), most)]), "?"))
}
