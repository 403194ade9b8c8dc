package command

import (
	"bufio"
	"errors"
	"fmt"
	"math"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/keys"
	"github.com/basaltdb/basalt/server/rdb"
)

var migrateCommands = []Spec{
	{Name: "migrate", Handler: migrate, Arity: -6, Flags: Write | MovableKeys | Alone, Keys: migrateKeys},
}

// The errors of MIGRATE. Their texts are those of Redis.
var (
	errMigrateKey = engine.NewError("ERR",
		"When using MIGRATE KEYS option, the key argument must be set to the empty string")
	errMigrateConnect = engine.NewError("IOERR", "error or timeout connecting to the client")
	errMigrateRead    = engine.NewError("IOERR", "error or timeout reading to target instance")
	errMigrateWrite   = engine.NewError("IOERR", "error or timeout writing to target instance")
)

// migrateOptions are the arguments of MIGRATE host port key|"" destination-db timeout [COPY] [REPLACE]
// [AUTH password | AUTH2 username password] [KEYS key ...].
type migrateOptions struct {
	copy, replace bool
	auth          [][]byte // the arguments of AUTH; nil = it is not sent
	keys          [][]byte
	first         int // index of the first key
}

func parseMigrate(args [][]byte) (o migrateOptions, err error) {
	o.keys, o.first = args[3:4], 3
	w := options{args: args[6:]}
	for w.more() {
		switch {
		case w.flag("COPY", &o.copy):
		case w.flag("REPLACE", &o.replace):
		case w.has("AUTH", 1):
			o.auth = [][]byte{w.next()}
		case w.has("AUTH2", 2):
			o.auth = [][]byte{w.next(), w.next()}
		case w.is("KEYS"):
			if len(args[3]) > 0 {
				return o, errMigrateKey
			}
			o.keys, o.first = w.args, len(args)-len(w.args)
			return o, nil
		default:
			w.err = ErrSyntax
		}
	}
	return o, w.err
}

func migrateKeys(args [][]byte, add func(argIndex int, write bool)) error {
	if len(args) < 6 {
		return nil
	}
	o, err := parseMigrate(args)
	if err != nil {
		return nil
	}
	for i := range o.keys {
		add(o.first+i, !o.copy)
	}
	return nil
}

// migrate sends keys to another server, which restores them, and deletes the keys that the other server has
// acknowledged: a key is never lost, but after an error while waiting for the reply it may exist on both servers. The
// locks of these keys are held throughout, so that no client changes a key between sending and deletion; commands on
// other keys do not wait.
func migrate(c *Ctx) error {
	o, err := parseMigrate(c.Args)
	if err != nil {
		return err
	}
	timeout, ok := ParseInt(c.Args[5])
	database, ok2 := ParseInt(c.Args[4])
	if !ok || !ok2 {
		return ErrNotInteger
	}
	if timeout <= 0 {
		timeout = 1000
	}
	list := make([][]byte, 0, len(o.keys))
	for _, key := range o.keys {
		rec, err := c.Tx.LoadAny(key)
		if err != nil {
			return err
		}
		if rec.Exists {
			list = append(list, key)
		}
	}
	if len(list) == 0 {
		c.Out.SimpleString("NOKEY")
		return nil
	}
	t, err := dialTarget(c, time.Duration(min(timeout, math.MaxInt64/int64(time.Millisecond)))*time.Millisecond)
	if err != nil {
		return err
	}
	defer t.close()
	if err := t.begin(o.auth, database); err != nil {
		return err
	}
	sent, err := t.send(c, list, o.replace)
	var acked [][]byte
	for _, key := range sent {
		switch line, e := t.line(); {
		case e != nil:
			if err == nil {
				err = errMigrateRead
			}
		case strings.HasPrefix(line, "-"):
			if err == nil {
				err = targetError(line)
			}
			continue
		default:
			acked = append(acked, key)
			continue
		}
		break // nothing more can be read
	}
	if !o.copy && len(acked) > 0 {
		if _, err := keys.Del(c.Tx, acked...); err != nil {
			return err
		}
	}
	if err != nil { // the acknowledged keys are deleted all the same
		WriteError(c.Out, err)
	} else {
		c.Out.OK()
	}
	return nil
}

// targetError is the error for an error reply of the target.
func targetError(line string) error {
	return engine.NewError("ERR", "Target instance replied with error: "+line[1:])
}

// target is the connection to the server that receives the keys.
type target struct {
	conn    net.Conn
	r       *bufio.Reader
	w       *bufio.Writer
	timeout time.Duration // of connecting, of each write and of each reply
	done    chan struct{}
}

// dialTarget connects to the server. The connection is closed when the client's is.
func dialTarget(c *Ctx, timeout time.Duration) (*target, error) {
	conn, err := net.DialTimeout("tcp", net.JoinHostPort(string(c.Args[1]), string(c.Args[2])), timeout)
	var op *net.OpError
	var dns *net.DNSError
	switch {
	case err == nil:
	case errors.As(err, &op) && !op.Timeout() && !errors.As(err, &dns):
		return nil, errMigrateWrite // Redis learns of a refused connection when it writes
	default:
		return nil, errMigrateConnect
	}
	t := &target{conn: conn, r: bufio.NewReaderSize(conn, 4<<10), w: bufio.NewWriterSize(conn, 64<<10), timeout: timeout,
		done: make(chan struct{})}
	if c.Sess != nil && c.Sess.Control != nil {
		closing := c.Sess.Control.Done()
		go func() {
			select {
			case <-closing:
				conn.Close()
			case <-t.done:
			}
		}()
	}
	return t, nil
}

func (t *target) close() {
	close(t.done)
	t.conn.Close()
}

// begin authenticates and selects the database. Redis sends the keys without waiting for the replies; a target that
// does not have the database then restores them in another.
func (t *target) begin(auth [][]byte, database int64) error {
	commands := 1
	if auth != nil {
		commands++
		t.command("AUTH", auth...)
	}
	t.command("SELECT", strconv.AppendInt(nil, database, 10))
	if err := t.flush(); err != nil {
		return err
	}
	for range commands {
		line, err := t.line()
		if err != nil {
			return errMigrateRead
		}
		if strings.HasPrefix(line, "-") {
			return targetError(line)
		}
	}
	return nil
}

// send sends the keys until one fails, and returns the keys that were sent completely.
func (t *target) send(c *Ctx, list [][]byte, replace bool) (sent [][]byte, err error) {
	for _, key := range list {
		rec, err := c.Tx.LoadAny(key)
		if err != nil || !rec.Exists {
			return sent, errors.Join(err, t.flush())
		}
		payload, err := dumpKey(c, key, &rec)
		if err != nil {
			return sent, errors.Join(err, t.flush())
		}
		ttl := int64(0)
		if rec.Expire > 0 {
			ttl = max(int64(rec.Expire)-c.Tx.Clock(), 1)
		}
		args := [][]byte{key, strconv.AppendInt(nil, ttl, 10), payload}
		if replace {
			args = append(args, []byte("REPLACE"))
		}
		if t.command("RESTORE", args...); t.w.Flush() != nil {
			return sent, errMigrateWrite
		}
		sent = append(sent, key)
	}
	return sent, t.flush()
}

// flush sends the contents of the buffer.
func (t *target) flush() error {
	t.conn.SetWriteDeadline(time.Now().Add(t.timeout))
	if t.w.Flush() != nil {
		return errMigrateWrite
	}
	return nil
}

// command adds a command to the buffer. An error comes with the next flush.
func (t *target) command(name string, args ...[]byte) {
	t.conn.SetWriteDeadline(time.Now().Add(t.timeout))
	fmt.Fprintf(t.w, "*%d\r\n$%d\r\n%s\r\n", 1+len(args), len(name), name)
	for _, a := range args {
		fmt.Fprintf(t.w, "$%d\r\n", len(a))
		for len(a) > 0 { // the time limit applies to each piece, not to all
			n := min(len(a), 64<<10)
			t.conn.SetWriteDeadline(time.Now().Add(t.timeout))
			t.w.Write(a[:n])
			a = a[n:]
		}
		t.w.WriteString("\r\n")
	}
}

// line reads a reply of one line.
func (t *target) line() (string, error) {
	t.conn.SetReadDeadline(time.Now().Add(t.timeout))
	line, err := t.r.ReadSlice('\n')
	return strings.TrimRight(string(line), "\r\n"), err
}

// dumpKey returns the reply of DUMP for a key that exists.
func dumpKey(c *Ctx, key []byte, rec *engine.Record) ([]byte, error) {
	bulk, most := c.Srv.Settings.MaxBulk(), c.Tx.DB().MaxResultBytes()/2 // the reply is a copy
	d := dumper{limit: min(bulk, most), version: rdb.PlainVersion}
	if err := d.value(c.Tx, key, rec); err != nil {
		return nil, err
	}
	switch {
	case d.full && most < bulk:
		return nil, engine.ErrResultSize
	case d.full:
		return nil, errDumpSize
	}
	return rdb.AppendFooter(d.b, d.version), nil
}
