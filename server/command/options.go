package command

// options takes the options of a command from the front of its arguments:
//
//	o := options{args: c.Args[3:]}
//	for o.more() {
//		switch {
//		case o.flag("ALPHA", &alpha):
//		case o.int("COUNT", &count):
//			o.check(count > 0, errCount)
//		default:
//			o.err = ErrSyntax
//		}
//	}
//
// An option that lacks its value is none of those that the methods know, so it ends in the default case.
type options struct {
	args [][]byte // what is left
	err  error    // the first error
}

// more reports whether there are arguments left. After an error there are none.
func (o *options) more() bool { return o.err == nil && len(o.args) > 0 }

// next takes an argument; nil when none is left.
func (o *options) next() []byte {
	if len(o.args) == 0 {
		return nil
	}
	arg := o.args[0]
	o.args = o.args[1:]
	return arg
}

// is takes the next argument if it is the word.
func (o *options) is(word string) bool {
	if len(o.args) == 0 || !EqualFold(o.args[0], word) {
		return false
	}
	o.args = o.args[1:]
	return true
}

// flag sets to if the next argument is the word.
func (o *options) flag(word string, to *bool) bool {
	if !o.is(word) {
		return false
	}
	*to = true
	return true
}

// has takes the word, if at least n arguments follow it.
func (o *options) has(word string, n int) bool { return len(o.args) > n && o.is(word) }

// value takes the word and the argument behind it.
func (o *options) value(word string, to *[]byte) bool {
	if !o.has(word, 1) {
		return false
	}
	*to = o.next()
	return true
}

// int takes the word and an integer.
func (o *options) int(word string, to *int64) bool { return o.intOr(word, to, ErrNotInteger) }

// intOr is int with another error for an argument that is no integer.
func (o *options) intOr(word string, to *int64, bad error) bool {
	if !o.has(word, 1) {
		return false
	}
	var ok bool
	*to, ok = ParseInt(o.next())
	o.check(ok, bad)
	return true
}

// limit takes LIMIT offset count.
func (o *options) limit(offset, count *int64) bool {
	if !o.has("LIMIT", 2) {
		return false
	}
	*offset, *count, o.err = bounds(o.next(), o.next())
	return true
}

// check notes an error, unless ok or there is one already.
func (o *options) check(ok bool, err error) {
	if !ok && o.err == nil {
		o.err = err
	}
}

// fail notes an error, unless it is nil or there is one already.
func (o *options) fail(err error) { o.check(err == nil, err) }
