package transfer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/basaltdb/basalt/engine/stream"
	"github.com/basaltdb/basalt/server/rdb"
	"github.com/basaltdb/basalt/server/resp"
)

// verifyElems is the number of elements compared by one command.
const verifyElems = 512

// verify reads again the RDB file at the beginning of the files, and compares its content with a server.
func (m *importer) verify(ctx context.Context, c *resp.Conn, files []File) error {
	f := files[0]
	if f.Kind != RDB {
		m.result.Warnings = append(m.result.Warnings, "commands are verified by their replies only")
		return nil
	}
	if len(files) > 1 {
		m.result.Warnings = append(m.result.Warnings, "the commands of the append-only file may have changed what the "+
			"RDB file holds: nothing was compared")
		return nil
	}
	r, err := f.open(nil)
	if err != nil {
		return err
	}
	defer r.Close()
	v := &verifier{m: m, pipe: NewPipe(c), ctx: ctx, db: m.home()}
	file, err := rdb.NewFile(&stopReading{ctx, r, m, f.Size, "comparing"}, f.Size, maxValue)
	if err == nil {
		v.ask(anything, "SELECT", strconv.FormatUint(v.db, 10))
		err = m.each(file, false, v.item, func([]byte) error { return nil })
	}
	return errors.Join(err, v.pipe.Close())
}

// verifier compares the parts of values with those of a server.
type verifier struct {
	m    *importer
	pipe *Pipe
	ctx  context.Context
	db   uint64
	err  error
	buf  []byte
	n    int64 // number of elements in the parts so far
}

// ask sends a command about a key; answer checks the reply and returns a description of a difference, "" = none. answer
// runs in the reading goroutine.
func (v *verifier) ask(answer func(r *resp.Reply) string, args ...string) {
	if v.err != nil {
		return
	}
	what := fmt.Sprintf("%.20s %.100q", args[0], args[min(1, len(args)-1)])
	v.buf = resp.AppendCommand(v.buf[:0], args...)
	v.err = v.pipe.Send(v.buf, func(r *resp.Reply) {
		wrong := ""
		if err := r.Err(); err != nil {
			wrong = err.Error()
		} else {
			wrong = answer(r)
		}
		if wrong != "" {
			v.m.mu.Lock()
			v.m.result.Differ.Add("%s: %s", what, wrong)
			v.m.mu.Unlock()
		}
	})
}

func isInt(want int64) func(*resp.Reply) string {
	return func(r *resp.Reply) string {
		if r.Kind != ':' || r.Int != want {
			return fmt.Sprintf("%d, not %d", r.Int, want)
		}
		return ""
	}
}

// hasElems expects an array of so many elements.
func hasElems(want int) func(*resp.Reply) string {
	return func(r *resp.Reply) string {
		if len(r.Elems) != want {
			return fmt.Sprintf("%d, not %d", len(r.Elems), want)
		}
		return ""
	}
}

// isText expects a string.
func isText(want string) func(*resp.Reply) string {
	return func(r *resp.Reply) string { return have([]string{want}, nil)(&resp.Reply{Elems: []resp.Reply{*r}}) }
}

// anything expects no error.
func anything(*resp.Reply) string { return "" }

// have expects a list of strings, where those marked in maybe may be null because they have expired.
func have(want []string, maybe []bool) func(*resp.Reply) string {
	return func(r *resp.Reply) string {
		if len(r.Elems) != len(want) {
			return fmt.Sprintf("%d elements, not %d", len(r.Elems), len(want))
		}
		for i := range want {
			if e := &r.Elems[i]; (e.Null || string(e.Text) != want[i]) && !(e.Null && maybe != nil && maybe[i]) {
				return fmt.Sprintf("element %d is %.100q, not %.100q", i, e.Text, want[i])
			}
		}
		return ""
	}
}

func (v *verifier) item(i *rdb.Item) error {
	if err := v.ctx.Err(); err != nil {
		return err
	}
	key, val := string(i.Key), i.Value
	if i.DB != v.db {
		v.ask(anything, "SELECT", strconv.FormatUint(i.DB, 10))
		v.db = i.DB
	}
	if i.Part == 0 {
		v.n = 0
		v.m.result.Verified++
	}
	for at := 0; at < len(val.Elems); at += 2 * verifyElems {
		v.elements(key, val, at, min(at+2*verifyElems, len(val.Elems)))
	}
	if val.Stream != nil && len(val.Stream.Entries) > 0 {
		e := val.Stream.Entries
		n := len(e)
		v.ask(hasElems(n), "XRANGE", key, string(stream.AppendID(nil, e[0].ID)), string(stream.AppendID(nil, e[n-1].ID)))
		v.n += int64(n)
	}
	if i.More {
		return v.err
	}
	expires := int64(-1)
	if i.Expires {
		expires = i.Expire
	}
	v.ask(isInt(expires), "PEXPIRETIME", key)
	count := ""
	switch val.Kind {
	case rdb.String:
		if isHLL(val.String) {
			v.ask(isInt(1), "EXISTS", key)
			return v.err
		}
		v.ask(isText(string(val.String)), "GET", key)
	case rdb.List:
		count = "LLEN"
	case rdb.Set:
		count = "SCARD"
	case rdb.ZSet:
		count = "ZCARD"
	case rdb.Hash:
		if val.Expires == nil {
			count = "HLEN"
		}
	case rdb.Stream:
		count = "XLEN"
		v.ask(hasElems(len(val.Stream.Groups)), "XINFO", "GROUPS", key)
	default:
		v.ask(isText(val.Kind.String()), "TYPE", key)
	}
	if count != "" {
		v.ask(isInt(v.n), count, key)
	}
	return v.err
}

// elements compares some elements of a collection.
func (v *verifier) elements(key string, val *rdb.Value, from, to int) {
	elems := val.Elems[from:to]
	texts := make([]string, len(elems))
	for i, e := range elems {
		texts[i] = string(e)
	}
	switch val.Kind {
	case rdb.List:
		v.ask(have(texts, nil), "LRANGE", key, strconv.FormatInt(v.n, 10), strconv.FormatInt(v.n+int64(len(texts))-1, 10))
		v.n += int64(len(texts))
	case rdb.Set:
		v.ask(func(r *resp.Reply) string {
			for i := range r.Elems {
				if r.Elems[i].Int != 1 {
					return fmt.Sprintf("%.100q is no member", texts[i])
				}
			}
			return hasElems(len(texts))(r)
		}, append([]string{"SMISMEMBER", key}, texts...)...)
		v.n += int64(len(texts))
	case rdb.ZSet:
		scores := slices.Clone(val.Scores[from:to])
		v.ask(func(r *resp.Reply) string {
			for i := range r.Elems {
				if f, err := strconv.ParseFloat(string(r.Elems[i].Text), 64); err != nil || f != scores[i] {
					return fmt.Sprintf("the score of %.100q is %s, not %v", texts[i], r.Elems[i].Text, scores[i])
				}
			}
			return hasElems(len(texts))(r)
		}, append([]string{"ZMSCORE", key}, texts...)...)
		v.n += int64(len(texts))
	case rdb.Hash:
		args := []string{"HMGET", key}
		var want []string
		var maybe []bool
		for i := 0; i < len(texts); i += 2 {
			args = append(args, texts[i])
			want = append(want, texts[i+1])
			maybe = append(maybe, val.Expires != nil && val.Expires[(from+i)/2] != 0)
		}
		v.ask(have(want, maybe), args...)
		v.n += int64(len(texts) / 2)
	}
}
