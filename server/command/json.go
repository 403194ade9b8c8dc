package command

import (
	"strconv"
	"sync"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/json"
)

var jsonCommands = []Spec{
	{Name: "json.set", Handler: jsonSet, Arity: -4, Flags: Write | DenyOOM},
	{Name: "json.mset", Handler: jsonMSet, Arity: -4, Flags: Write | DenyOOM},
	{Name: "json.merge", Handler: jsonMerge, Arity: -4, Flags: Write | DenyOOM},
	{Name: "json.del", Handler: jsonCount(json.Delete), Arity: -2, Flags: Write},
	{Name: "json.forget", Handler: jsonCount(json.Delete), Arity: -2, Flags: Write},
	{Name: "json.clear", Handler: jsonCount(json.Clear), Arity: -2, Flags: Write},
	{Name: "json.toggle", Handler: jsonToggle, Arity: -2, Flags: Write | DenyOOM},
	{Name: "json.numincrby", Handler: jsonCalculate(json.Add), Arity: 4, Flags: Write | DenyOOM},
	{Name: "json.nummultby", Handler: jsonCalculate(json.Multiply), Arity: 4, Flags: Write | DenyOOM},
	{Name: "json.strappend", Handler: jsonStrAppend, Arity: -3, Flags: Write | DenyOOM},
	{Name: "json.arrappend", Handler: jsonArrAppend, Arity: -4, Flags: Write | DenyOOM},
	{Name: "json.arrinsert", Handler: jsonArrInsert, Arity: -5, Flags: Write | DenyOOM},
	{Name: "json.arrpop", Handler: jsonArrPop, Arity: -2, Flags: Write | DenyOOM},
	{Name: "json.arrtrim", Handler: jsonArrTrim, Arity: 5, Flags: Write},
}

var (
	errFormat      = engine.NewError("ERR", "wrong format")
	errReplyFormat = engine.NewError("ERR", "wrong reply format")
	errFormatRESP2 = engine.NewError("ERR", "FORMAT argument is not supported on RESP2")
	errLegacyPop   = engine.NewError("ERR", "Legacy paths are supported only with FORMAT STRINGS")
	errReplyLong   = engine.NewError("ERR", "the reply would be too long")
)

// jsonOptions returns how documents are written.
func jsonOptions(c *Ctx) json.Options {
	o := json.DefaultOptions
	if f, _ := c.Srv.Settings.Get("json-storage-format"); f == "cbor" {
		o.Format = cf.JSONCBOR
	}
	if text, ok := c.Srv.Settings.Get("json-max-nesting-depth"); ok {
		if n, err := strconv.Atoi(text); err == nil {
			o.MaxDepth = n
		}
	}
	o.MaxBytes = int(c.Srv.Settings.MaxBulk())
	return o
}

// optionalPath parses argument i, which is the last argument and optional.
func optionalPath(c *Ctx, i int) (*json.Path, error) {
	switch {
	case len(c.Args) > i+1:
		return nil, wrongArgs(c.Spec.FullName())
	case len(c.Args) == i:
		return json.Root(), nil
	}
	return json.ParsePath(string(c.Args[i]))
}

func noPath(p *json.Path) error {
	return errorf("Path '%s' does not exist", shortPath(p))
}

func noPathOr(p *json.Path, or string) error {
	return errorf("Path '%s' does not exist or %s", shortPath(p), or)
}

func shortPath(p *json.Path) string { return p.String()[:min(len(p.String()), maxEchoed)] }

// bounded is a reply of bounded length: the values that a path selects can contain each other, so a small document
// can make a very long reply.
type bounded struct {
	*Ctx
	end int // maximum length of the output
}

func bound(c *Ctx) bounded { return bounded{c, c.Out.Len() + int(c.Srv.Settings.MaxBulk())} }

// check checks that the reply is not too long.
func (c bounded) check() error {
	if c.Out.Len() > c.end {
		return errReplyLong
	}
	return nil
}

// writeResults writes one element for each result of a path, null for a result that is of another kind than the
// command works on; for a legacy path only the last result of that kind, which must exist.
func writeResults[T any](c *Ctx, p *json.Path, results []json.Result[T], or string, write func(v T)) error {
	if p.Legacy() {
		for i := len(results) - 1; i >= 0; i-- {
			if results[i].Fits {
				write(results[i].Value)
				return nil
			}
		}
		return noPathOr(p, or)
	}
	b := bound(c)
	c.Out.Array(len(results))
	for i := range results {
		if !results[i].Fits {
			c.Out.Null()
			continue
		}
		write(results[i].Value)
		if err := b.check(); err != nil {
			return err
		}
	}
	return nil
}

func (c *Ctx) writeLength(n int) { c.Out.Int(int64(n)) }

// setFormat reads the argument of FORMAT when a document is written: STRING and JSON are equivalent.
func setFormat(b []byte) error {
	if !EqualFold(b, "STRING") && !EqualFold(b, "JSON") {
		return errFormat
	}
	return nil
}

func jsonSet(c *Ctx) error {
	when := json.Always
	o := options{args: c.Args[4:]}
	for o.more() {
		switch {
		case when == json.Always && o.is("NX"):
			when = json.IfMissing
		case when == json.Always && o.is("XX"):
			when = json.IfExists
		case o.has("FORMAT", 1):
			o.err = setFormat(o.next())
		default:
			o.err = ErrSyntax
		}
	}
	if o.err != nil {
		return o.err
	}
	p, err := json.ParsePath(string(c.Args[2]))
	if err != nil {
		return err
	}
	done, err := json.Set(c.Tx, c.Args[1], p, c.Args[3], when, jsonOptions(c))
	return writeDone(c, done, err)
}

// writeDone writes OK, or null when nothing was done.
func writeDone(c *Ctx, done bool, err error) error {
	switch {
	case err != nil:
		return err
	case done:
		c.Out.OK()
	default:
		c.Out.Null()
	}
	return nil
}

func jsonMSet(c *Ctx) error {
	if (len(c.Args)-1)%3 != 0 {
		return wrongArgs(c.Spec.FullName())
	}
	items := make([]json.Item, 0, len(c.Args)/3)
	for rest := c.Args[1:]; len(rest) > 0; rest = rest[3:] {
		p, err := json.ParsePath(string(rest[1]))
		if err != nil {
			return err
		}
		items = append(items, json.Item{Key: rest[0], Path: p, Text: rest[2]})
	}
	return writeDone(c, true, json.MSet(c.Tx, items, jsonOptions(c)))
}

func jsonMerge(c *Ctx) error {
	switch {
	case len(c.Args) == 4:
	case len(c.Args) == 6 && EqualFold(c.Args[4], "FORMAT"):
		if err := setFormat(c.Args[5]); err != nil {
			return err
		}
	default:
		return ErrSyntax
	}
	p, err := json.ParsePath(string(c.Args[2]))
	if err != nil {
		return err
	}
	done, err := json.Merge(c.Tx, c.Args[1], p, c.Args[3], jsonOptions(c))
	return writeDone(c, done, err)
}

// jsonCount makes the handler of a command that has an optional path and returns a number.
func jsonCount(f func(tx *engine.Tx, key []byte, p *json.Path, o json.Options) (int, error)) Handler {
	return func(c *Ctx) error {
		p, err := optionalPath(c, 2)
		if err != nil {
			return err
		}
		n, err := f(c.Tx, c.Args[1], p, jsonOptions(c))
		return replyInt(c, n, err)
	}
}

func jsonToggle(c *Ctx) error {
	p, err := optionalPath(c, 2)
	if err != nil {
		return err
	}
	results, err := json.Toggle(c.Tx, c.Args[1], p, jsonOptions(c))
	if err != nil {
		return err
	}
	return writeResults(c, p, results, "not a bool", func(b bool) {
		if p.Legacy() {
			c.Out.BulkString(strconv.FormatBool(b))
		} else {
			c.Out.Int(boolInt(b))
		}
	})
}

// jsonCalculate makes the handler of a command that changes numbers. RESP3 has types for the results; in RESP2 the
// reply is the text of one number or of an array.
func jsonCalculate(op json.Operation) Handler {
	return func(c *Ctx) error {
		p, err := json.ParsePath(string(c.Args[2]))
		if err != nil {
			return err
		}
		results, err := json.Calculate(c.Tx, c.Args[1], p, op, c.Args[3], jsonOptions(c))
		if err != nil {
			return err
		}
		if c.Out.Proto == 3 {
			c.Out.Array(len(results))
			for i := range results {
				if results[i].Fits {
					writeNumber(c, &results[i].Value)
				} else {
					c.Out.Null()
				}
			}
			return nil
		}
		if p.Legacy() {
			return writeResults(c, p, results, "does not contains a number", func(v json.Value) { writeJSON(c, &v) })
		}
		all := make([]json.Value, len(results))
		for i := range results {
			all[i] = results[i].Value // null when it is not a number
		}
		array := json.ArrayOf(all...)
		writeJSON(c, &array)
		return nil
	}
}

// writeNumber writes a number as an integer, or a big number when it is too large for one, or a double.
func writeNumber(c *Ctx, v *json.Value) {
	switch v.Kind() {
	case json.Int:
		c.Out.Int(v.Int())
	case json.Float:
		c.Out.Double(v.Float())
	default:
		c.Out.BigNumber(string(json.Append(nil, v)))
	}
}

func jsonStrAppend(c *Ctx) error {
	p, text := json.Root(), c.Args[2]
	switch len(c.Args) {
	case 3:
	case 4:
		text = c.Args[3]
		var err error
		if p, err = json.ParsePath(string(c.Args[2])); err != nil {
			return err
		}
	default:
		return wrongArgs(c.Spec.FullName())
	}
	results, err := json.StrAppend(c.Tx, c.Args[1], p, text, jsonOptions(c))
	if err != nil {
		return err
	}
	return writeResults(c, p, results, "not a string", c.writeLength)
}

// writeLengths writes the new lengths of arrays.
func writeLengths(c *Ctx, p *json.Path, results []json.Result[int], err error) error {
	if err != nil {
		return err
	}
	return writeResults(c, p, results, "not an array", c.writeLength)
}

func jsonArrAppend(c *Ctx) error {
	p, err := json.ParsePath(string(c.Args[2]))
	if err != nil {
		return err
	}
	results, err := json.ArrAppend(c.Tx, c.Args[1], p, c.Args[3:], jsonOptions(c))
	return writeLengths(c, p, results, err)
}

func jsonArrInsert(c *Ctx) error {
	i, ok := ParseInt(c.Args[3])
	if !ok {
		return ErrNotInteger
	}
	p, err := json.ParsePath(string(c.Args[2]))
	if err != nil {
		return err
	}
	results, err := json.ArrInsert(c.Tx, c.Args[1], p, i, c.Args[4:], jsonOptions(c))
	return writeLengths(c, p, results, err)
}

func jsonArrTrim(c *Ctx) error {
	start, stop, err := bounds(c.Args[3], c.Args[4])
	if err != nil {
		return err
	}
	p, err := json.ParsePath(string(c.Args[2]))
	if err != nil {
		return err
	}
	results, err := json.ArrTrim(c.Tx, c.Args[1], p, start, stop, jsonOptions(c))
	return writeLengths(c, p, results, err)
}

func jsonArrPop(c *Ctx) error {
	args, form := c.Args[2:], formText
	if len(args) > 1 && EqualFold(args[0], "FORMAT") {
		var ok bool
		if form, ok = parseForm(args[1], "STRINGS"); !ok {
			return errReplyFormat
		}
		if c.Out.Proto != 3 {
			return errFormatRESP2
		}
		args = args[2:]
	}
	p, i := json.Root(), int64(-1)
	if len(args) > 2 {
		return wrongArgs(c.Spec.FullName())
	}
	if len(args) == 2 {
		var ok bool
		if i, ok = ParseInt(args[1]); !ok {
			return ErrNotInteger
		}
	}
	if len(args) > 0 {
		var err error
		if p, err = json.ParsePath(string(args[0])); err != nil {
			return err
		}
	}
	if p.Legacy() && form != formText {
		return errLegacyPop
	}
	results, err := json.ArrPop(c.Tx, c.Args[1], p, i, jsonOptions(c))
	if err != nil {
		return err
	}
	b := bound(c)
	werr := writeResults(c, p, results, "not an array", func(v *json.Value) {
		switch {
		case v == nil:
			c.Out.Null()
		case form == formText:
			writeJSON(c, v)
		default:
			if e := writeExpanded(b, v, form); e != nil {
				err = e
			}
		}
	})
	if err != nil {
		return err
	}
	return werr
}

// jsonTexts are buffers for JSON texts whose length must be known before they are written. Without the pool JSON.GET of
// a document of 1 KiB takes 1.08 times the CPU time.
var jsonTexts = sync.Pool{New: func() any { return new([]byte) }}

func jsonText() *[]byte {
	b := jsonTexts.Get().(*[]byte)
	*b = (*b)[:0]
	return b
}

func jsonDone(b *[]byte) {
	if cap(*b) <= 64<<10 {
		jsonTexts.Put(b)
	}
}

func writeJSON(c *Ctx, v *json.Value) {
	b := jsonText()
	defer jsonDone(b)
	*b = json.Append(*b, v)
	c.Out.Bulk(*b)
}
