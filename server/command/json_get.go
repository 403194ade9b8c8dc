package command

import (
	"errors"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/json"
)

// jsonForm is how a value is returned: as text, with its outermost level as RESP3, or entirely as RESP3.
type jsonForm uint8

const (
	formText jsonForm = iota
	formExpand1
	formExpand
)

// parseForm reads the argument of FORMAT; text is what formText is called.
func parseForm(b []byte, text string) (f jsonForm, ok bool) {
	switch {
	case EqualFold(b, text):
		return formText, true
	case EqualFold(b, "EXPAND1"):
		return formExpand1, true
	case EqualFold(b, "EXPAND"):
		return formExpand, true
	}
	return 0, false
}

func jsonGet(c *Ctx) error {
	var (
		format json.Format
		form   jsonForm
		paths  []*json.Path
		plain  = true
	)
	o := options{args: c.Args[2:]}
	text := func(to *string) {
		o.check(len(o.args) > 0, wrongArgs(c.Spec.FullName()))
		*to, plain = string(o.next()), false
	}
	for o.more() {
		switch {
		case o.is("INDENT"):
			text(&format.Indent)
		case o.is("NEWLINE"):
			text(&format.Newline)
		case o.is("SPACE"):
			text(&format.Space)
		case o.is("NOESCAPE"): // RedisJSON 1 had it
		case o.is("FORMAT"):
			o.check(c.Out.Proto == 3, errFormatRESP2)
			o.check(len(o.args) > 0, wrongArgs(c.Spec.FullName()))
			var ok bool
			form, ok = parseForm(o.next(), "STRING")
			o.check(ok, errReplyFormat)
		default:
			p, err := json.ParsePath(string(o.next()))
			o.fail(err)
			paths = append(paths, p)
		}
	}
	if o.err != nil {
		return o.err
	}
	if paths == nil {
		paths = []*json.Path{json.Root()}
	}
	d, err := openJSON(c, c.Args[1])
	if err != nil {
		return err
	}
	if !d.Exists() {
		c.Out.Null()
		return nil
	}
	if form != formText {
		return writePathsExpanded(c, d, paths, form)
	}
	b := jsonText()
	defer jsonDone(b)
	if plain && len(paths) == 1 && paths[0].IsRoot() {
		if !paths[0].Legacy() {
			*b = append(*b, '[')
		}
		if *b, err = d.AppendText(*b); err != nil {
			return err
		}
		if !paths[0].Legacy() {
			*b = append(*b, ']')
		}
		c.Out.Bulk(*b)
		return nil
	}
	w := json.Printer{Format: format, Dst: *b, Limit: int(c.Srv.Settings.MaxBulk())}
	if len(paths) == 1 {
		if err = printPath(&w, d, paths[0], paths[0].Legacy()); errors.Is(err, errNoResult) {
			err = noPath(paths[0])
		}
	} else {
		err = printPaths(&w, d, paths)
	}
	*b = w.Dst
	switch {
	case err != nil:
		return err
	case w.Full():
		return errReplyLong
	}
	c.Out.Bulk(*b)
	return nil
}

// errNoResult: a legacy path has no result.
var errNoResult = errors.New("no result")

// printPath prints the results of a path as an array, or only the first result; without a result the error is
// errNoResult.
func printPath(w *json.Printer, d *json.Document, p *json.Path, first bool) error {
	if first {
		v, err := d.First(p)
		switch {
		case err != nil:
			return err
		case v == nil:
			return errNoResult
		}
		w.Value(v)
		return nil
	}
	values, err := d.Select(p)
	if err != nil {
		return err
	}
	w.Open('[')
	for i, v := range values {
		if w.Full() {
			return nil
		}
		w.Next(i == 0)
		w.Value(v)
	}
	w.Close(']', len(values) == 0)
	return nil
}

// printPaths prints an object with a member for each path: the first result when all of them are legacy paths, else an
// array of results.
func printPaths(w *json.Printer, d *json.Document, paths []*json.Path) error {
	legacy := true
	for _, p := range paths {
		legacy = legacy && p.Legacy()
	}
	seen := make(map[string]bool, len(paths))
	w.Open('{')
	for _, p := range paths {
		if seen[p.Original()] || w.Full() {
			continue
		}
		w.Name(p.Original(), len(seen) == 0)
		seen[p.Original()] = true
		if err := printPath(w, d, p, legacy); errors.Is(err, errNoResult) {
			return noPath(p)
		} else if err != nil {
			return err
		}
	}
	w.Close('}', false)
	return nil
}

func writePathsExpanded(c *Ctx, d *json.Document, paths []*json.Path, form jsonForm) error {
	b := bound(c)
	c.Out.Array(len(paths))
	for _, p := range paths {
		values, err := d.Select(p)
		if err != nil {
			return err
		}
		c.Out.Array(len(values))
		for _, v := range values {
			if err := writeExpanded(b, v, form); err != nil {
				return err
			}
		}
	}
	return nil
}

// writeExpanded writes a value as RESP3: with formExpand1, strings, arrays and objects are written as JSON texts.
func writeExpanded(c bounded, v *json.Value, form jsonForm) error {
	switch kind := v.Kind(); {
	case kind == json.Null:
		c.Out.Null()
	case kind == json.Bool:
		c.Out.Bool(v.Bool())
	case v.IsNumber():
		writeNumber(c.Ctx, v)
	case form == formExpand1:
		writeJSON(c.Ctx, v)
	case kind == json.String:
		c.Out.BulkString(v.Text())
	default:
		if kind == json.Array {
			c.Out.Array(v.Len())
		} else {
			c.Out.Map(v.Len())
		}
		for i := range v.Len() {
			if kind == json.Object {
				c.Out.BulkString(v.Key(i))
			}
			if err := writeExpanded(c, v.At(i), form); err != nil {
				return err
			}
		}
	}
	return c.check()
}

// jsonMGet returns null for a key that is no document and for a malformed path, as RedisJSON does.
func jsonMGet(c *Ctx) error {
	keys := c.Args[1 : len(c.Args)-1]
	p, perr := json.ParsePath(string(c.Args[len(c.Args)-1]))
	// A document is decoded once, however often its key is given.
	times := make(map[string]int, len(keys))
	for _, key := range keys {
		times[string(key)]++
	}
	docs := make(map[string]*json.Document)
	left, reply := jsonBudget(c), bound(c)
	text := jsonText()
	defer jsonDone(text)
	c.Out.Array(len(keys))
	for _, key := range keys {
		d := docs[string(key)]
		if d == nil {
			var err error
			if d, err = json.Open(c.Tx, key, left); err != nil && !errors.Is(err, engine.ErrWrongType) {
				return err
			}
			if times[string(key)] > 1 && err == nil {
				docs[string(key)] = d
			}
		}
		if d == nil || !d.Exists() || perr != nil {
			c.Out.Null()
			continue
		}
		w := json.Printer{Dst: (*text)[:0], Limit: int(c.Srv.Settings.MaxBulk())}
		err := printPath(&w, d, p, p.Legacy())
		*text = w.Dst
		switch {
		case errors.Is(err, errNoResult):
			c.Out.Null()
		case err != nil:
			return err
		case w.Full():
			return errReplyLong
		default:
			c.Out.Bulk(*text)
		}
		if err := reply.check(); err != nil {
			return err
		}
	}
	return nil
}
