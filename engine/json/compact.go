package json

import "hash/maphash"

// compactor converts JSON text into the stored text of a document without creating values.
type compactor struct {
	parser
	dst []byte
	// names are the hashes of the member names of the open objects.
	names []uint64
	seed  maphash.Seed
	twice bool // a name may have occurred twice in an object
	once  bool // the input is known to have no repeated names
}

var nameSeed = maphash.MakeSeed()

// Compact appends the text of the document s without white space and with every number and string in canonical form:
// the output of [Append] for the result of [Parse], in a fraction of the time.
func Compact(dst []byte, s string, maxDepth int) ([]byte, error) {
	return compact(dst, s, maxDepth, false)
}

// compact is Compact; once says that no object has a repeated name, as in text that was compacted before.
func compact(dst []byte, s string, maxDepth int, once bool) ([]byte, error) {
	p, err := newParser(s, maxDepth)
	if err != nil {
		return dst, err
	}
	c := compactor{parser: p, dst: dst, seed: nameSeed, once: once}
	var names [fewNames]uint64
	c.names = names[:0]
	if err := c.value(); err != nil {
		return dst, err
	}
	if err := c.end(); err != nil {
		return dst, err
	}
	if c.twice {
		v, err := Parse(s, maxDepth)
		if err != nil {
			return dst, err
		}
		return Append(c.dst[:len(dst)], &v), nil
	}
	return c.dst, nil
}

func (c *compactor) value() error {
	b, err := c.next(eofValue)
	if err != nil {
		return err
	}
	from := c.i
	switch b {
	case '{':
		return c.object()
	case '[':
		return c.array()
	case '"':
		return c.str()
	case 't':
		err = c.word("true")
	case 'f':
		err = c.word("false")
	case 'n':
		err = c.word("null")
	default:
		var fraction bool
		if fraction, err = c.number(); err != nil {
			return err
		}
		if fraction || c.s[from:c.i] == "-0" {
			n, ok := parseNumber(c.s[from:c.i], fraction)
			if !ok {
				return c.at(outOfRange)
			}
			c.dst = appendNumber(c.dst, &n)
			return nil
		}
	}
	c.dst = append(c.dst, c.s[from:c.i]...)
	return err
}

func (c *compactor) str() error {
	from := c.i
	s, err := c.parser.str()
	if err != nil {
		return err
	}
	if len(s) == c.i-from-2 {
		// An escape is longer than its character: the string had none.
		c.dst = append(c.dst, c.s[from:c.i]...)
		return nil
	}
	c.dst = appendString(c.dst, s)
	return nil
}

func (c *compactor) array() error {
	if err := c.enter(); err != nil {
		return err
	}
	c.dst = append(c.dst, '[')
	for first := true; ; first = false {
		more, err := c.element(first)
		if err != nil {
			return err
		}
		if !more {
			c.leave()
			c.dst = append(c.dst, ']')
			return nil
		}
		if !first {
			c.dst = append(c.dst, ',')
		}
		if err := c.value(); err != nil {
			return err
		}
	}
}

// fewNames is the number of names up to which they are compared one by one.
const fewNames = 64

func (c *compactor) object() error {
	if err := c.enter(); err != nil {
		return err
	}
	c.dst = append(c.dst, '{')
	base := len(c.names)
	var many map[uint64]struct{}
	for first := true; ; first = false {
		more, err := c.member(first)
		if err != nil {
			return err
		}
		if !more {
			c.leave()
			c.dst = append(c.dst, '}')
			c.names = c.names[:base]
			return nil
		}
		if !first {
			c.dst = append(c.dst, ',')
		}
		from := len(c.dst)
		if err := c.str(); err != nil {
			return err
		}
		if !c.once {
			many = c.note(maphash.Bytes(c.seed, c.dst[from:]), base, many)
		}
		if err := c.colon(); err != nil {
			return err
		}
		c.dst = append(c.dst, ':')
		if err := c.value(); err != nil {
			return err
		}
	}
}

// note compares the hash of a name with those of the object's other names: they are in c.names from base on, or if
// there are many, in the set many. It returns that set.
func (c *compactor) note(name uint64, base int, many map[uint64]struct{}) map[uint64]struct{} {
	if many != nil {
		if _, ok := many[name]; ok {
			c.twice = true
		}
		many[name] = struct{}{}
		return many
	}
	for _, other := range c.names[base:] {
		if other == name {
			c.twice = true
		}
	}
	if c.names = append(c.names, name); len(c.names)-base <= fewNames {
		return nil
	}
	many = make(map[uint64]struct{}, 2*fewNames)
	for _, other := range c.names[base:] {
		many[other] = struct{}{}
	}
	return many
}
