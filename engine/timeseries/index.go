package timeseries

import (
	"bytes"
	"cmp"
	"maps"
	"slices"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
)

// Errors of filters.
var (
	ErrFilter    = engine.NewError("ERR", "failed parsing labels")
	ErrNoMatcher = engine.NewError("ERR", "please provide at least one matcher")
)

// Filter finds time series by their labels. All matchers must match.
type Filter struct{ matchers []matcher }

// matcher is a condition on a label: its value is one of several, or none of them. A label that does not exist has an
// empty value.
type matcher struct {
	label  []byte
	values [][]byte
	not    bool
}

func (m *matcher) matches(labels []Label) bool {
	var value []byte
	i := slices.IndexFunc(labels, func(l Label) bool { return bytes.Equal(l.Name, m.label) })
	if i >= 0 {
		value = labels[i].Value
	}
	if !m.not && len(m.values) == 0 {
		return i < 0
	}
	has := slices.ContainsFunc(m.values, func(v []byte) bool { return bytes.Equal(v, value) })
	return has != m.not && (i >= 0 || m.not)
}

// Add adds a matcher:
//
//	label=value  label!=value  label=(a,b)  label!=(a,b)  label= (does not exist)  label!= (exists)
//
// Values may be in single or double quotes. It returns [ErrFilter] for anything else.
func (f *Filter) Add(text []byte) error {
	if len(text) == 0 {
		return nil
	}
	at := outside(text, func(c byte) bool { return c == '=' })
	if at < 0 {
		return ErrFilter
	}
	m := matcher{label: text[:at]}
	if at > 0 && text[at-1] == '!' {
		m.label, m.not = text[:at-1], true
	}
	m.label = bytes.TrimSpace(m.label)
	switch value := text[at+1:]; {
	case len(value) == 0 && m.not:
		m.values = [][]byte{nil}
	case len(value) == 0:
	case value[0] == '(' && value[len(value)-1] == ')' && len(value) > 1:
		for rest := value[1 : len(value)-1]; len(rest) > 0; {
			end := outside(rest, func(c byte) bool { return c == ',' })
			if end < 0 {
				end = len(rest)
			}
			if v := bytes.TrimSpace(unquote(rest[:end])); len(v) > 0 {
				m.values = append(m.values, v)
			}
			rest = rest[min(end+1, len(rest)):]
		}
	default:
		m.values = [][]byte{unquote(value)}
	}
	f.matchers = append(f.matchers, m)
	return nil
}

// Check returns [ErrNoMatcher] unless a matcher names the value of a label.
func (f *Filter) Check() error {
	if !slices.ContainsFunc(f.matchers, func(m matcher) bool { return !m.not && len(m.values) > 0 }) {
		return ErrNoMatcher
	}
	return nil
}

// outside returns the index of the first byte outside of quotes for which is holds, -1 if there is none.
func outside(text []byte, is func(c byte) bool) int {
	quote := byte(0)
	for i, c := range text {
		switch {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '\'' || c == '"':
			quote = c
		case is(c):
			return i
		}
	}
	return -1
}

// unquote removes quotes around a value.
func unquote(v []byte) []byte {
	if n := len(v); n >= 2 && v[0] == v[n-1] && (v[0] == '\'' || v[0] == '"') {
		return v[1 : n-1]
	}
	return v
}

// Find calls f with the time series that a filter, which has passed Check, finds, and their labels, ordered by user
// key. The time series are read without their locks: what f sees of one may be of another time than what it sees of the
// next.
func Find(tx *engine.Tx, filter *Filter, f func(s *Series, labels []Label) error) error {
	keys, err := candidates(tx, filter)
	if err != nil {
		return err
	}
	for _, key := range keys {
		s, err := Peek(tx, []byte(key))
		if err == ErrNotFound || err == engine.ErrWrongType {
			continue // the index is older
		}
		if err != nil {
			return err
		}
		labels, err := s.Labels()
		if err != nil {
			return err
		}
		if slices.ContainsFunc(filter.matchers, func(m matcher) bool { return !m.matches(labels) }) {
			continue
		}
		if err := f(s, labels); err != nil {
			return err
		}
	}
	return nil
}

// candidates returns the user keys that the index has for all matchers that name values.
func candidates(tx *engine.Tx, filter *Filter) (keys []string, err error) {
	var found map[string]bool
	for i := range filter.matchers {
		m := &filter.matchers[i]
		if m.not || len(m.values) == 0 {
			continue
		}
		next := map[string]bool{}
		for _, v := range m.values {
			it := tx.Iter(cf.Index, engine.IterOptions{Prefix: cf.AppendIndexPrefix(nil, tx.Namespace(), m.label, v),
				KeysOnly: true})
			for it.Next() {
				if key := it.Key(); found == nil || found[string(key)] {
					next[string(key)] = true
				}
			}
			err := it.Err()
			it.Close()
			if err != nil {
				return nil, err
			}
		}
		found = next
	}
	return slices.Sorted(maps.Keys(found)), nil
}

// Reduce makes one sample of all samples with the same timestamp. It orders the samples by timestamp.
func Reduce(samples []cf.Sample, f cf.Aggregator) (reduced []cf.Sample) {
	slices.SortStableFunc(samples, func(a, b cf.Sample) int { return cmp.Compare(a.Timestamp, b.Timestamp) })
	for len(samples) > 0 {
		var a Accumulator
		ts := samples[0].Timestamp
		for len(samples) > 0 && samples[0].Timestamp == ts {
			a.Add(samples[0])
			samples = samples[1:]
		}
		reduced = append(reduced, cf.Sample{Timestamp: ts, Value: a.Value(f)})
	}
	return reduced
}
