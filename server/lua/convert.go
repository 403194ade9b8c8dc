package lua

import (
	"bytes"
	"errors"
	"math"
	"strconv"
	"strings"

	vm "github.com/yuin/gopher-lua"

	"github.com/basaltdb/basalt/server/lua/luac"
	"github.com/basaltdb/basalt/server/resp"
)

// replyBuffer holds the reply of a command that a script called.
type replyBuffer struct{ w resp.Writer }

func (b *replyBuffer) release() {
	b.w.Reset()
	b.w.Release(64 << 10)
}

// maxReplyDepth is the max nesting depth of tables in a reply. Deeper tables become an error, as in Redis, where Lua's
// stack ends.
const maxReplyDepth = 7900

var (
	errReply   = errors.New("malformed reply")
	errStopped = errors.New("the script is stopped") // the state knows the reason
)

// Approximate sizes in bytes of the values of a reply.
const (
	tableBytes = 128
	valueBytes = 32  // an array element, including a string header
	fieldBytes = 128 // a table with named fields
)

// countedField is Redis's name of the field that marks an error of a command: the statistics have counted it already.
const countedField = "ignore_error_stats_update"

func isCounted(t *vm.LTable) bool { return vm.LVAsBool(t.RawGetString(countedField)) }

// reader converts a RESP reply to a Lua value.
type reader struct {
	st *state
	b  []byte
}

func (r *reader) line() ([]byte, error) {
	i := bytes.IndexByte(r.b, '\r')
	if i < 1 || i+1 >= len(r.b) {
		return nil, errReply
	}
	line := r.b[1:i]
	r.b = r.b[i+2:]
	return line, nil
}

func tagged(name string, v vm.LValue) *vm.LTable {
	t := newTable(0, 0)
	storeName(t, name, v)
	return t
}

// value reads one reply. An error becomes an error table.
func (r *reader) value() (vm.LValue, error) {
	if len(r.b) == 0 {
		return nil, errReply
	}
	kind := r.b[0]
	line, err := r.line()
	if err != nil {
		return nil, err
	}
	switch kind {
	case ':':
		n, err := strconv.ParseInt(string(line), 10, 64)
		return vm.LNumber(n), err
	case '+':
		return tagged("ok", vm.LString(line)), nil
	case '-':
		t := tagged("err", vm.LString(line))
		storeName(t, countedField, vm.LTrue)
		return t, nil
	case '_':
		return vm.LNil, nil
	case '#':
		return vm.LBool(string(line) == "t"), nil
	case ',':
		f, err := strconv.ParseFloat(string(line), 64)
		return tagged("double", vm.LNumber(f)), err
	case '(':
		return tagged("big_number", vm.LString(line)), nil
	}
	n, err := strconv.Atoi(string(line))
	if err != nil {
		return nil, err
	}
	switch kind {
	case '$', '=':
		if n < 0 {
			return vm.LFalse, nil
		}
		if n+2 > len(r.b) {
			return nil, errReply
		}
		s := r.b[:n]
		r.b = r.b[n+2:]
		if !r.st.account(n + valueBytes) {
			return nil, errStopped
		}
		if kind == '=' && n >= 4 {
			t := newTable(0, 0)
			storeName(t, "string", vm.LString(s[4:]))
			storeName(t, "format", vm.LString(s[:3]))
			return tagged("verbatim_string", t), nil
		}
		return vm.LString(s), nil
	case '*', '>':
		if n < 0 {
			return vm.LFalse, nil
		}
		if !r.st.account(tableBytes + n*valueBytes) {
			return nil, errStopped
		}
		t := newTable(listPlaces(n), 0)
		for i := 1; i <= n; i++ {
			v, err := r.value()
			if err != nil {
				return nil, err
			}
			setIndex(nil, t, i, v)
		}
		return t, nil
	case '~', '%':
		if !r.st.account(tableBytes + n*fieldBytes) {
			return nil, errStopped
		}
		t, name := newTable(0, 0), "set"
		for range n {
			k, err := r.value()
			if err != nil {
				return nil, err
			}
			var v vm.LValue = vm.LTrue
			if kind == '%' {
				if v, err = r.value(); err != nil {
					return nil, err
				}
			}
			if k != vm.LNil {
				store(nil, t, k, v)
			}
		}
		if kind == '%' {
			name = "map"
		}
		return tagged(name, t), nil
	case '|': // attributes are skipped; the reply itself follows
		for range 2 * n {
			if _, err := r.value(); err != nil {
				return nil, err
			}
		}
		return r.value()
	}
	return nil, errReply
}

// writeReply writes the result of a script as a reply.
func (st *state) writeReply(w *resp.Writer, v vm.LValue, depth int) error {
	switch v := v.(type) {
	case vm.LString:
		w.BulkString(string(v))
	case vm.LNumber:
		w.Int(int64(cInt(float64(v))))
	case vm.LBool:
		switch {
		case st.resp == 3:
			w.Bool(bool(v))
		case bool(v):
			w.Int(1)
		default:
			w.Null()
		}
	case *vm.LTable:
		return st.writeTable(w, v, depth)
	default:
		w.Null()
	}
	return nil
}

func (st *state) writeTable(w *resp.Writer, t *vm.LTable, depth int) error {
	if depth > maxReplyDepth {
		w.Error("ERR", "reached lua stack limit")
		return nil
	}
	if t = real(t); len(contentsOf(t).strdict) == 0 {
		return st.writeArray(w, t, depth)
	}
	if s, ok := t.RawGetString("err").(vm.LString); ok {
		text := strings.TrimRight(luac.CString(string(s)), "\r\n")
		st.run.Host.Failed(text, isCounted(t))
		w.Error("", text)
		return nil
	}
	if s, ok := t.RawGetString("ok").(vm.LString); ok {
		w.SimpleString(luac.CString(string(s)))
		return nil
	}
	if f, ok := t.RawGetString("double").(vm.LNumber); ok {
		w.Double(float64(f))
		return nil
	}
	if s, ok := t.RawGetString("big_number").(vm.LString); ok {
		w.BigNumber(oneLine(string(s)))
		return nil
	}
	if m, ok := t.RawGetString("verbatim_string").(*vm.LTable); ok {
		format, ok1 := m.RawGetString("format").(vm.LString)
		text, ok2 := m.RawGetString("string").(vm.LString)
		if ok1 && ok2 {
			w.Verbatim(luac.CString(string(format)), string(text))
			return nil
		}
	}
	if m, ok := t.RawGetString("map").(*vm.LTable); ok {
		return st.writePairs(w, m, depth, true)
	}
	if m, ok := t.RawGetString("set").(*vm.LTable); ok {
		return st.writePairs(w, m, depth, false)
	}
	return st.writeArray(w, t, depth)
}

// listPlaces returns the array size that adding n elements one after the other would give.
func listPlaces(n int) int {
	if n == 0 {
		return 0
	}
	return powerOfTwo(n)
}

func (st *state) writeArray(w *resp.Writer, t *vm.LTable, depth int) error {
	n := 0
	for rawGetInt(t, n+1) != vm.LNil {
		n++
	}
	w.Array(n)
	for i := 1; i <= n; i++ {
		if err := st.writeReply(w, rawGetInt(t, i), depth+1); err != nil {
			return err
		}
	}
	return st.tooLong(w)
}

func (st *state) writePairs(w *resp.Writer, t *vm.LTable, depth int, values bool) error {
	mark, n := w.Mark(), 0
	for k, v := range pairs(t) {
		n++
		if err := st.writeReply(w, k, depth+1); err != nil {
			return err
		}
		if values {
			if err := st.writeReply(w, v, depth+1); err != nil {
				return err
			}
		}
	}
	if values {
		w.InsertMap(mark, n)
	} else {
		w.InsertSet(mark, n)
	}
	return st.tooLong(w)
}

// tooLong ends a reply that would not end: a table may contain another table many times.
func (st *state) tooLong(w *resp.Writer) error {
	if w.Len() > maxString {
		return &Error{Text: "ERR the reply of the script is too long"}
	}
	return nil
}

func oneLine(s string) string { return strings.NewReplacer("\r", " ", "\n", " ").Replace(s) }

// appendArg appends an argument of redis.call. It formats numbers as Redis 7.2 does: 0.1, not 0.10000000000000001, and
// integers up to 2^62 without a fraction.
func appendArg(b []byte, v vm.LValue) ([]byte, bool) {
	switch v := v.(type) {
	case vm.LString:
		return append(b, v...), true
	case vm.LNumber:
		f := float64(v)
		switch {
		case f == 0:
			return append(b, '0'), true // also for -0
		case math.IsNaN(f) && math.Signbit(f):
			b = append(b, '-') // the CPU's sign of 0/0
		}
		return resp.AppendDouble(b, f), true
	}
	return b, false
}
