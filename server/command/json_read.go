package command

import (
	"strconv"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine/json"
)

var jsonReadCommands = []Spec{
	{Name: "json.get", Handler: jsonGet, Arity: -2, Flags: ReadOnly | Single},
	{Name: "json.mget", Handler: jsonMGet, Arity: -3, Flags: ReadOnly | Single},
	{Name: "json.type", Handler: jsonType, Arity: -2, Flags: ReadOnly | Single},
	{Name: "json.arrlen", Handler: jsonArrLen, Arity: -2, Flags: ReadOnly | Single},
	{Name: "json.arrindex", Handler: jsonArrIndex, Arity: -4, Flags: ReadOnly | Single},
	{Name: "json.objkeys", Handler: jsonObjKeys, Arity: -2, Flags: ReadOnly | Single},
	{Name: "json.objlen", Handler: jsonObjLen, Arity: -2, Flags: ReadOnly | Single},
	{Name: "json.strlen", Handler: jsonStrLen, Arity: -2, Flags: ReadOnly | Single},
	{Name: "json.resp", Handler: jsonResp, Arity: -2, Flags: ReadOnly | Single},
	{Name: "json.info", Handler: jsonInfo, Arity: 2, Flags: ReadOnly | Fast | Single},
	{Name: "json.debug", Arity: -2, Sub: []Spec{
		{Name: "memory", Handler: jsonDebugMemory, Arity: -3, Flags: ReadOnly | Single},
		{Name: "help", Handler: help, Arity: 2, Flags: Loading | Stale},
	}},
}

// jsonBudget returns the budget of a command.
func jsonBudget(c *Ctx) *json.Budget {
	n := 0
	for _, a := range c.Args {
		n += len(a)
	}
	return json.NewBudget(n)
}

func openJSON(c *Ctx, key []byte) (*json.Document, error) { return json.Open(c.Tx, key, jsonBudget(c)) }

// jsonRead runs a command that has an optional path, behind the key: see readPath.
func jsonRead(c *Ctx, missing func(p *json.Path) error, one, each func(p *json.Path, v *json.Value) error) error {
	p, err := optionalPath(c, 2)
	if err != nil {
		return err
	}
	return readPath(c, p, c.Args[1], missing,
		func(_ *json.Document, v *json.Value) error { return one(p, v) },
		func(_ *json.Document, v *json.Value) error { return each(p, v) })
}

// readPath calls missing for a missing key; one with the first result of a legacy path, nil = no result; each with
// every result of another path.
func readPath(c *Ctx, p *json.Path, key []byte, missing func(p *json.Path) error,
	one, each func(d *json.Document, v *json.Value) error) error {
	d, err := openJSON(c, key)
	if err != nil {
		return err
	}
	if !d.Exists() {
		return missing(p)
	}
	if p.Legacy() {
		v, err := d.First(p)
		if err != nil {
			return err
		}
		return one(d, v)
	}
	values, err := d.Select(p)
	if err != nil {
		return err
	}
	b := bound(c)
	c.Out.Array(len(values))
	for _, v := range values {
		if err := each(d, v); err != nil {
			return err
		}
		if err := b.check(); err != nil {
			return err
		}
	}
	return nil
}

// null writes null and is an argument of jsonRead.
func (c *Ctx) null(*json.Path) error {
	c.Out.Null()
	return nil
}

// nullOrNoKey writes null for a legacy path; else a missing key is an error.
func (c *Ctx) nullOrNoKey(p *json.Path) error {
	if !p.Legacy() {
		return json.ErrNoKey
	}
	c.Out.Null()
	return nil
}

func jsonType(c *Ctx) error {
	if c.Out.Proto == 3 {
		c.Out.Array(1)
	}
	name := func(_ *json.Path, v *json.Value) error {
		if v == nil {
			c.Out.Null()
		} else {
			c.Out.BulkString(v.TypeName())
		}
		return nil
	}
	return jsonRead(c, c.null, name, name)
}

// jsonLength runs JSON.ARRLEN, JSON.OBJLEN and JSON.STRLEN.
func jsonLength(c *Ctx, missing func(p *json.Path) error, noResult func(p *json.Path) error,
	length func(v *json.Value) (n int, ok bool), wrong func(p *json.Path, v *json.Value) error) error {
	return jsonRead(c, missing, func(p *json.Path, v *json.Value) error {
		if v == nil {
			return noResult(p)
		}
		n, ok := length(v)
		if !ok {
			return wrong(p, v)
		}
		return replyInt(c, n, nil)
	}, func(_ *json.Path, v *json.Value) error {
		if n, ok := length(v); ok {
			c.Out.Int(int64(n))
		} else {
			c.Out.Null()
		}
		return nil
	})
}

func jsonArrLen(c *Ctx) error {
	return jsonLength(c, c.nullOrNoKey, noPath,
		func(v *json.Value) (int, bool) { return v.Len(), v.Kind() == json.Array },
		func(p *json.Path, _ *json.Value) error { return noPathOr(p, "not an array") })
}

func jsonObjLen(c *Ctx) error {
	missing := func(p *json.Path) error {
		if !p.Legacy() {
			return noPathOr(p, "not an object")
		}
		c.Out.Null()
		return nil
	}
	return jsonLength(c, missing, c.null,
		func(v *json.Value) (int, bool) { return v.Len(), v.Kind() == json.Object },
		func(_ *json.Path, v *json.Value) error { return json.WrongKind("object", v) })
}

func jsonStrLen(c *Ctx) error {
	return jsonLength(c, c.nullOrNoKey, noPath,
		func(v *json.Value) (int, bool) { return len(v.Text()), v.Kind() == json.String },
		func(_ *json.Path, v *json.Value) error { return json.WrongKind("string", v) })
}

func jsonObjKeys(c *Ctx) error {
	keys := func(_ *json.Path, v *json.Value) error {
		if v.Kind() != json.Object {
			c.Out.Null()
			return nil
		}
		c.Out.Array(v.Len())
		for i := range v.Len() {
			c.Out.BulkString(v.Key(i))
		}
		return nil
	}
	return jsonRead(c, c.nullOrNoKey, func(p *json.Path, v *json.Value) error {
		switch {
		case v == nil:
			c.Out.Null()
			return nil
		case v.Kind() != json.Object:
			return noPathOr(p, "not an object")
		}
		return keys(p, v)
	}, keys)
}

func jsonArrIndex(c *Ctx) error {
	if len(c.Args) > 6 {
		return wrongArgs(c.Spec.FullName())
	}
	var bounds [2]int64
	for i, a := range c.Args[4:] {
		var ok bool
		if bounds[i], ok = ParseInt(a); !ok {
			return ErrNotInteger
		}
	}
	p, err := json.ParsePath(string(c.Args[2]))
	if err != nil {
		return err
	}
	want, err := json.Parse(string(c.Args[3]), jsonOptions(c).MaxDepth)
	if err != nil {
		return err
	}
	index := func(d *json.Document, v *json.Value) error {
		i, err := d.IndexOf(v, &want, bounds[0], bounds[1])
		return replyInt(c, i, err)
	}
	return readPath(c, p, c.Args[1], noPath, func(d *json.Document, v *json.Value) error {
		switch {
		case v == nil:
			return noPath(p)
		case v.Kind() != json.Array:
			return json.WrongKind("array", v)
		}
		return index(d, v)
	}, func(d *json.Document, v *json.Value) error {
		if v.Kind() != json.Array {
			c.Out.Null()
			return nil
		}
		return index(d, v)
	})
}

// writeRESP writes a value as JSON.RESP does: arrays and objects begin with a bracket, and members are two elements
// each.
func writeRESP(c bounded, v *json.Value) error {
	switch kind := v.Kind(); {
	case kind == json.Null:
		c.Out.Null()
	case kind == json.Bool:
		c.Out.SimpleString(strconv.FormatBool(v.Bool()))
	case v.IsNumber():
		writeNumber(c.Ctx, v)
	case kind == json.String:
		c.Out.BulkString(v.Text())
	default:
		if kind == json.Array {
			c.Out.Array(1 + v.Len())
			c.Out.SimpleString("[")
		} else {
			c.Out.Array(1 + 2*v.Len())
			c.Out.SimpleString("{")
		}
		for i := range v.Len() {
			if kind == json.Object {
				c.Out.BulkString(v.Key(i))
			}
			if err := writeRESP(c, v.At(i)); err != nil {
				return err
			}
		}
	}
	return c.check()
}

func jsonResp(c *Ctx) error {
	b := bound(c)
	return jsonRead(c, c.null, func(p *json.Path, v *json.Value) error {
		if v == nil {
			return noPath(p)
		}
		return writeRESP(b, v)
	}, func(_ *json.Path, v *json.Value) error { return writeRESP(b, v) })
}

func jsonInfo(c *Ctx) error {
	d, err := openJSON(c, c.Args[1])
	if err != nil {
		return err
	}
	if !d.Exists() {
		return json.ErrNoKey
	}
	format := "json"
	if d.Format() == cf.JSONCBOR {
		format = "cbor"
	}
	c.Out.Array(2)
	stringField(c.Out, "storage_format", format)
	return nil
}

func jsonDebugMemory(c *Ctx) error {
	p, err := optionalPath(c, 3)
	if err != nil {
		return err
	}
	missing := func(p *json.Path) error {
		if p.Legacy() {
			return replyInt(c, 0, nil)
		}
		c.Out.Array(0)
		return nil
	}
	size := func(d *json.Document, v *json.Value) error {
		if v == nil {
			return noPath(p)
		}
		n, err := d.SizeOf(v)
		return replyInt(c, n, err)
	}
	if !p.IsRoot() {
		return readPath(c, p, c.Args[2], missing, size, size)
	}
	d, err := openJSON(c, c.Args[2])
	switch {
	case err != nil:
		return err
	case !d.Exists():
		return missing(p)
	case !p.Legacy():
		c.Out.Array(1)
	}
	return replyInt(c, d.Size(), nil)
}
