// Package setting describes the settings: names, kind, range and default of each, and the conversion from text to
// value.
package setting

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Kind is the type of a setting's value.
type Kind uint8

const (
	Bool   Kind = iota // yes or no
	Int                // a decimal, 0x hexadecimal or 0 octal number
	Bytes              // an Int with an optional unit: b, or k, m, g, t or p (powers of 1024), with or without a b
	Octal              // octal digits
	Enum               // one of a list of names
	String             // any text
	Multi              // any text, one a line; each occurrence in a file adds a line
	Limits             // client-output-buffer-limit, see [BufferLimit]
)

// Setting describes one key. The table of all settings is the only place that knows names, types, defaults and
// ranges: files, the command line, CONFIG and kvrocks.toml all follow it.
type Setting struct {
	Name     string
	Alias    string // another name of the same setting; empty = none
	Kind     Kind
	Default  string // in canonical form
	Min, Max int64  // of Int, Bytes and Octal, both inclusive
	Names    []string
	// Dynamic settings can be changed by CONFIG SET, the others only at start.
	Dynamic bool
	// Volatile settings name a file: CONFIG SET to the present value applies the file again.
	Volatile bool
	// Protected settings name a path to which the server writes: see enable-protected-configs.
	Protected bool
	// Redis settings are settings of Redis that no file lists: see redisSettings.
	Redis bool
	// Inert is the reason why the setting has no effect; empty when it has one.
	Inert   string
	Comment string // one line, for kvrocks.toml
	// Check rejects strings that fit the Kind but not the setting; nil = no check.
	Check func(text string) error
	// Canonical converts a string that Check has accepted to the form that is shown; nil = no conversion.
	Canonical func(text string) string
}

// Value is the value of a setting in two forms.
type Value struct {
	Text string // canonical: what CONFIG GET shows and CONFIG REWRITE writes
	Num  int64  // Bool: 0 or 1; Int, Bytes, Octal: the number; Enum: the index in Names; Limits: bytes for normal clients
}

// Errors of values. Their texts are those of CONFIG SET in Redis 7.2.
var (
	errInteger     = errors.New("argument couldn't be parsed into an integer")
	errMemory      = errors.New("argument must be a memory value")
	errLimitCount  = ReplyError("Wrong number of arguments in buffer limit configuration.")
	errLimitClass  = ReplyError("Invalid client class specified in buffer limit configuration.")
	errLimitNumber = ReplyError("Error in hard, soft or soft_seconds setting in buffer limit configuration.")
)

// ReplyError is an error whose text is fixed by Redis or Kvrocks, punctuation and all.
type ReplyError string

func (e ReplyError) Error() string { return string(e) }

// Parse reads a string in any accepted form. old is the previous value: Multi adds to it, and Limits keeps the
// classes that text does not name.
func (s *Setting) Parse(old, text string) (Value, error) {
	v, err := s.parseKind(old, text)
	if err == nil && s.Check != nil {
		err = s.Check(v.Text)
	}
	if err == nil && s.Canonical != nil {
		v.Text = s.Canonical(v.Text)
	}
	return v, err
}

func (s *Setting) parseKind(old, text string) (Value, error) {
	switch s.Kind {
	case Bool:
		switch {
		case strings.EqualFold(text, "yes"):
			return Value{"yes", 1}, nil
		case strings.EqualFold(text, "no"):
			return Value{"no", 0}, nil
		}
		return Value{}, errors.New("argument must be 'yes' or 'no'")
	case Int:
		if s.Min == RocksDecides && text == strconv.FormatUint(math.MaxUint64-1, 10) {
			text = strconv.Itoa(RocksDecides)
		}
		n, err := parseInt(text)
		if err != nil {
			return Value{}, err
		}
		return Value{strconv.FormatInt(n, 10), n}, s.inRange(n)
	case Bytes:
		n, err := parseBytes(text)
		if err != nil {
			return Value{}, err
		}
		return Value{strconv.FormatInt(n, 10), n}, s.inRange(n)
	case Octal:
		n, err := strconv.ParseInt(text, 8, 64)
		if err != nil {
			return Value{}, errors.New("argument couldn't be parsed as an octal number")
		}
		return Value{strconv.FormatInt(n, 8), n}, s.inRange(n)
	case Enum:
		for i, name := range s.Names {
			if strings.EqualFold(text, name) {
				return Value{name, int64(i)}, nil
			}
		}
		return Value{}, fmt.Errorf("argument(s) must be one of the following: %s", strings.Join(s.Names, ", "))
	case Multi:
		if old != "" {
			text = old + "\n" + text
		}
		return Value{Text: text}, nil
	case Limits:
		l, err := ParseLimits(old, text)
		return Value{formatLimits(l), l[ClassNormal].Hard}, err
	}
	return Value{Text: text}, nil
}

func (s *Setting) inRange(n int64) error {
	if n < s.Min || n > s.Max {
		return fmt.Errorf("argument must be between %d and %d inclusive", s.Min, s.Max)
	}
	return nil
}

// parseInt reads a number as C's strtoll with base 0 does: 0x is hexadecimal, a leading 0 octal.
func parseInt(text string) (int64, error) {
	// Go's base 0 also knows underscores, 0b and 0o.
	if strings.ContainsAny(text, "_oObB") && !strings.ContainsAny(text, "xX") || strings.Contains(text, "_") {
		return 0, errInteger
	}
	n, err := strconv.ParseInt(text, 0, 64)
	if err != nil {
		return 0, errInteger
	}
	return n, nil
}

// Units of sizes. One letter is a power of 1024 in Kvrocks, and must stay so in a kvrocks.conf, but a power of 1000 in
// a redis.conf. kb, mb and gb have the same meaning in both.
var (
	kvrocksUnits = map[string]uint64{
		"": 1, "b": 1, "k": 1 << 10, "kb": 1 << 10, "m": 1 << 20, "mb": 1 << 20, "g": 1 << 30, "gb": 1 << 30,
		"t": 1 << 40, "tb": 1 << 40, "p": 1 << 50, "pb": 1 << 50,
	}
	redisUnits = map[string]uint64{
		"": 1, "b": 1, "k": 1e3, "kb": 1 << 10, "m": 1e6, "mb": 1 << 20, "g": 1e9, "gb": 1 << 30,
	}
)

// parseSize parses a decimal number of bytes with one of units.
func parseSize(text string, units map[string]uint64) (n uint64, ok bool) {
	digits := strings.TrimRight(text, "bkmgtpBKMGTP")
	unit, ok := units[strings.ToLower(text[len(digits):])]
	n, err := strconv.ParseUint(digits, 10, 64)
	return n * unit, ok && err == nil && n <= math.MaxUint64/unit
}

// parseBytes parses a number as parseInt does, or a size with one of Kvrocks's units. Larger numbers than an int64
// become the largest int64, which no memory reaches.
func parseBytes(text string) (int64, error) {
	if n, err := parseInt(text); err == nil && n >= 0 {
		return n, nil
	}
	n, ok := parseSize(text, kvrocksUnits)
	if !ok {
		return 0, errMemory
	}
	return int64(min(n, math.MaxInt64)), nil
}

// ParseRedisMemory reads a size as redis.conf writes it.
func ParseRedisMemory(text string) (int64, bool) {
	n, ok := parseSize(text, redisUnits)
	return int64(n), ok && n <= math.MaxInt64
}

// Class is a class of clients with its own limit of unread replies.
type Class int

const (
	ClassNormal Class = iota
	ClassReplica
	ClassPubSub
	NumClasses
)

// classNames are the names that CONFIG GET shows.
var classNames = [NumClasses]string{"normal", "slave", "pubsub"}

// BufferLimit is the limit of a client's unread replies: the client is disconnected at once when Hard bytes are
// waiting, or when more than Soft bytes have been waiting for Seconds. 0 = no such limit.
type BufferLimit struct{ Hard, Soft, Seconds int64 }

// ParseLimits reads Redis's grammar: any number of "class hard soft seconds".
func ParseLimits(old, text string) (l [NumClasses]BufferLimit, err error) {
	if old != "" {
		if l, err = ParseLimits("", old); err != nil {
			return l, err
		}
	}
	words := strings.Fields(text)
	if len(words)%4 != 0 {
		return l, errLimitCount
	}
	for ; len(words) > 0; words = words[4:] {
		class := -1
		switch strings.ToLower(words[0]) {
		case "normal":
			class = int(ClassNormal)
		case "slave", "replica":
			class = int(ClassReplica)
		case "pubsub":
			class = int(ClassPubSub)
		}
		if class < 0 {
			return l, errLimitClass
		}
		hard, ok1 := ParseRedisMemory(words[1])
		soft, ok2 := ParseRedisMemory(words[2])
		seconds, err := strconv.ParseInt(words[3], 10, 32)
		if !ok1 || !ok2 || err != nil || seconds < 0 {
			return l, errLimitNumber
		}
		l[class] = BufferLimit{hard, soft, seconds}
	}
	return l, nil
}

func formatLimits(l [NumClasses]BufferLimit) string {
	var words []string
	for i, b := range l {
		words = append(words, fmt.Sprintf("%s %d %d %d", classNames[i], b.Hard, b.Soft, b.Seconds))
	}
	return strings.Join(words, " ")
}

// Lines returns the lines of a text of a Multi setting.
func Lines(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}
