package migrate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/basaltdb/basalt/internal/transfer"
	"github.com/basaltdb/basalt/server/command"
	"github.com/basaltdb/basalt/server/rdb"
	"github.com/basaltdb/basalt/server/replication/redislink"
)

// The bounds of a link to a Redis.
const (
	redisSilence = time.Minute // the default repl-timeout of Redis, which sends a ping every ten seconds
	ackEvery     = time.Second
)

// followRedis copies as a replica of a Redis.
func (c *copier) followRedis(ctx context.Context) error {
	addr := c.from.addr
	addr.DB = 0
	conn, err := transfer.Dial(ctx, addr)
	if err != nil {
		return fmt.Errorf("%s: %w", addr, err)
	}
	defer conn.Close()
	r := c.begin(c.applied())
	return r.stop(redislink.Run(ctx, redislink.Options{
		Conn: conn.Conn, In: conn.In, Log: zap.NewNop(), Port: 1, Target: &redisTarget{c, r}, MaxValue: maxValue,
		Silence: redisSilence, AckEvery: ackEvery,
		Step: func(s redislink.Step) {
			if s == redislink.Streaming {
				c.trouble.Store(nil)
				c.stage.Store(streaming)
			}
		},
		Loaded: func() {}, Heard: func() {},
		Transfer: func(size int64) { c.total.Store(max(size, 0)) },
		Received: func(n int) { c.moved.Add(int64(n)) },
		Offset:   &r.taken, Applied: r.applied,
	}))
}

// redisTarget is the [redislink.Target] of a link to a Redis.
type redisTarget struct {
	c *copier
	r *rounds
}

func (t *redisTarget) State() (s redislink.State, ok bool, err error) {
	kind, rest, err := t.c.position()
	if err != nil || kind != positionRedis {
		return s, false, err
	}
	if s, err = redislink.ParseState([]byte(rest)); err != nil {
		return s, false, finalError{fmt.Errorf("%s: %w", PositionKey, err)}
	}
	return s, true, nil
}

func (t *redisTarget) Keep(s redislink.State) error {
	return t.add(&changes{}, s)
}

func (t *redisTarget) add(ch *changes, s redislink.State) error {
	return t.r.add(ch, string(s.Append([]byte(positionRedis+" "))), s.Offset)
}

// errAgain: the stream cannot be followed key by key, so everything is copied again.
var errAgain = errors.New("all keys are copied again")

// Apply implements redislink.Target: the next round copies the keys of the commands.
func (t *redisTarget) Apply(commands []redislink.Command, after redislink.State) error {
	ch := changes{seen: map[key]bool{}}
	for i := range commands {
		if err := t.note(&ch, &commands[i]); err != nil {
			return err
		}
	}
	return t.add(&ch, after)
}

// changes are the effects of some commands or batches.
type changes struct {
	keys      []key
	seen      map[key]bool
	flushed   []int // databases that were emptied, < 0 = all
	functions bool  // function libraries have changed
	again     error // why all keys must be copied again, nil = not necessary
}

func (ch *changes) add(k key) {
	if !ch.seen[k] {
		ch.seen[k] = true
		ch.keys = append(ch.keys, k)
	}
}

// apply copies everything that has changed.
func (c *copier) apply(ch *changes) error {
	if ch.again != nil {
		if err := c.setPosition(positionCopying); err != nil {
			return err
		}
		return ch.again
	}
	for _, db := range ch.flushed {
		if err := c.flushed(db); err != nil {
			return err
		}
	}
	if ch.functions {
		if err := c.copyFunctions(); err != nil {
			return err
		}
	}
	keys := ch.keys
	if c.from.addr.DB != 0 { // the other databases are not copied
		keys = nil
		for _, k := range ch.keys {
			if k.db == c.from.addr.DB {
				keys = append(keys, k)
			}
		}
	}
	return c.copyKeys(keys)
}

// note adds the changes of a command of the stream.
func (t *redisTarget) note(ch *changes, cmd *redislink.Command) error {
	args := cmd.Args
	switch strings.ToLower(string(args[0])) {
	case "flushall":
		ch.flushed = append(ch.flushed, -1)
		return nil
	case "flushdb":
		ch.flushed = append(ch.flushed, cmd.DB)
		return nil
	case "swapdb":
		ch.again = fmt.Errorf("SWAPDB: %w", errAgain)
		return nil
	case "function":
		ch.functions = true
		return nil
	case "script", "publish", "spublish":
		return nil
	case "move":
		if len(args) == 3 {
			t.also(ch, args[2], args[1])
		}
	case "copy":
		for i := 3; i+1 < len(args); i++ {
			if bytes.EqualFold(args[i], []byte("db")) {
				t.also(ch, args[i+1], args[2])
			}
		}
	}
	spec := command.Lookup(args[0])
	if spec != nil && len(spec.Sub) > 0 && len(args) > 1 {
		spec = spec.Subcommand(args[1])
	}
	if spec == nil || spec.Arity > 0 && len(args) != spec.Arity || len(args) < -spec.Arity {
		return t.ask(ch, cmd)
	}
	for _, ref := range spec.AppendKeys(nil, args) {
		ch.add(key{cmd.DB, string(args[ref.Arg])})
	}
	return nil
}

// also adds a key in the database that an argument names.
func (t *redisTarget) also(ch *changes, db, name []byte) {
	if n, err := strconv.Atoi(string(db)); err == nil {
		ch.add(key{n, string(name)})
	}
}

// ask asks the source for the keys of a command that basalt does not know.
func (t *redisTarget) ask(ch *changes, cmd *redislink.Command) error {
	words := []string{"COMMAND", "GETKEYS"}
	for _, a := range cmd.Args {
		words = append(words, string(a))
	}
	src, err := t.c.source(t.c.from.addr.DB)
	if err != nil {
		return err
	}
	return src.each(func(p *pipe) error {
		replies, err := p.start(words)()
		if err != nil {
			return err
		}
		if replies[0].Err() != nil {
			t.c.left.other("commands whose keys are not known", cmd.Name())
		}
		for _, e := range replies[0].Elems {
			ch.add(key{cmd.DB, string(e.Text)})
		}
		return nil
	})
}

func (t *redisTarget) Load() (redislink.Loader, error) {
	if err := t.c.restart(); err != nil {
		return nil, err
	}
	l := &redisLoad{t: t, items: make(chan *rdb.Item), failed: make(chan struct{})}
	for range 4 * dumpsAtOnce {
		l.workers.Go(l.work)
	}
	return l, nil
}

// redisLoad is the [redislink.Loader] of the first copy.
type redisLoad struct {
	t       *redisTarget
	items   chan *rdb.Item
	workers sync.WaitGroup
	stop    sync.Once
	once    sync.Once
	err     error // valid once failed is closed
	failed  chan struct{}
}

func (l *redisLoad) work() {
	for i := range l.items {
		if err := l.t.c.copyItem(i); err != nil {
			l.once.Do(func() {
				l.err = err
				close(l.failed)
			})
		}
	}
}

func (l *redisLoad) Add(i *rdb.Item) error {
	if i.Function != nil {
		return nil // function libraries are copied at the end
	}
	if db := l.t.c.from.addr.DB; db != 0 && int(i.DB) != db {
		return nil
	}
	select {
	case <-l.failed:
		return l.err
	case l.items <- i:
		return nil
	}
}

// Script implements redislink.Loader. Clients load scripts again when they are missing.
func (l *redisLoad) Script([]byte) error { return nil }

func (l *redisLoad) End(s redislink.State) error {
	l.drain()
	select {
	case <-l.failed:
		return l.err
	default:
	}
	if err := l.t.c.copyFunctions(); err != nil {
		return err
	}
	return l.t.Keep(s)
}

func (l *redisLoad) drain() {
	l.stop.Do(func() { close(l.items) })
	l.workers.Wait()
}

// Abort implements redislink.Loader. The next copy deletes what was copied.
func (l *redisLoad) Abort() { l.drain() }
