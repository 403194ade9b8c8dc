package command

import (
	"math"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/tdigest"
)

var tdigestCommands = []Spec{
	{Name: "tdigest.create", Handler: tdigestCreate, Arity: -2, Flags: Write | DenyOOM | Fast},
	{Name: "tdigest.add", Handler: onDigest(tdigestAdd), Arity: -3, Flags: Write | DenyOOM},
	{Name: "tdigest.merge", Handler: tdigestMerge, Arity: -4, Flags: Write | DenyOOM | MovableKeys,
		Keys: destinationNumKeys},
	{Name: "tdigest.reset", Handler: onDigest(tdigestReset), Arity: 2, Flags: Write | DenyOOM | Fast},
	{Name: "tdigest.min", Handler: onDigest(tdigestEnd), Arity: 2, Flags: ReadOnly | Fast | Single},
	{Name: "tdigest.max", Handler: onDigest(tdigestEnd), Arity: 2, Flags: ReadOnly | Fast | Single},
	{Name: "tdigest.quantile", Handler: estimate(parseQuantile, (*tdigest.Sketch).Quantile), Arity: -3, Flags: ReadOnly},
	{Name: "tdigest.cdf", Handler: estimate(floatOr(errTDCDF), (*tdigest.Sketch).CDF), Arity: -3, Flags: ReadOnly},
	{Name: "tdigest.rank", Handler: estimate(floatOr(errTDValue), (*tdigest.Sketch).Rank), Arity: -3, Flags: ReadOnly},
	{Name: "tdigest.revrank", Handler: estimate(floatOr(errTDValue), (*tdigest.Sketch).RevRank), Arity: -3,
		Flags: ReadOnly},
	{Name: "tdigest.byrank", Handler: estimate(parseRank, (*tdigest.Sketch).ByRank), Arity: -3, Flags: ReadOnly},
	{Name: "tdigest.byrevrank", Handler: estimate(parseRank, (*tdigest.Sketch).ByRevRank), Arity: -3, Flags: ReadOnly},
	{Name: "tdigest.trimmed_mean", Handler: onDigest(tdigestTrimmedMean), Arity: 4, Flags: ReadOnly},
	{Name: "tdigest.info", Handler: onDigest(tdigestInfo), Arity: 2, Flags: ReadOnly | Fast | Single},
}

// The error texts are those of RedisBloom.
var (
	errTDKeyword     = engine.NewError("ERR", "T-Digest: wrong keyword")
	errTDCompression = engine.NewError("ERR", "T-Digest: error parsing compression parameter")
	errTDPositive    = engine.NewError("ERR", "T-Digest: compression parameter needs to be a positive integer")
	errTDTooLarge    = engine.NewError("ERR", "T-Digest: allocation failed")
	errTDVal         = engine.NewError("ERR", "T-Digest: error parsing val parameter")
	errTDFinite      = engine.NewError("ERR", "T-Digest: val parameter needs to be a finite number")
	errTDNumKeys     = engine.NewError("ERR", "T-Digest: error parsing numkeys")
	errTDFewKeys     = engine.NewError("ERR", "T-Digest: numkeys needs to be a positive integer")
	errTDQuantile    = engine.NewError("ERR", "T-Digest: error parsing quantile")
	errTDUnit        = engine.NewError("ERR", "T-Digest: quantile should be in [0,1]")
	errTDCDF         = engine.NewError("ERR", "T-Digest: error parsing cdf")
	errTDValue       = engine.NewError("ERR", "T-Digest: error parsing value")
	errTDRank        = engine.NewError("ERR", "T-Digest: error parsing rank")
	errTDNegative    = engine.NewError("ERR", "T-Digest: rank needs to be non negative")
	errTDLow         = engine.NewError("ERR", "T-Digest: error parsing low_cut_percentile")
	errTDHigh        = engine.NewError("ERR", "T-Digest: error parsing high_cut_percentile")
	errTDCut         = engine.NewError("ERR", "T-Digest: low_cut_percentile and high_cut_percentile should be in [0,1]")
	errTDCutOrder    = engine.NewError("ERR", "T-Digest: low_cut_percentile should be lower than high_cut_percentile")
)

// onDigest makes the handler of a command on an existing t-digest.
func onDigest(f func(c *Ctx, d tdigest.Digest) error) Handler {
	return func(c *Ctx) error {
		d, err := tdigest.Open(c.Tx, c.Args[1])
		if err != nil {
			return err
		}
		return f(c, d)
	}
}

func parseCompression(b []byte) (uint32, error) {
	n, ok := ParseInt(b)
	switch {
	case !ok:
		return 0, errTDCompression
	case n <= 0:
		return 0, errTDPositive
	case n > tdigest.MaxCompression:
		return 0, errTDTooLarge
	}
	return uint32(n), nil
}

func tdigestCreate(c *Ctx) error {
	compression := uint32(tdigest.DefaultCompression)
	if len(c.Args) != 2 && len(c.Args) != 4 {
		return wrongArgs(c.Spec.FullName())
	}
	// As in RedisBloom, the check that the key exists comes before the check of the options.
	if _, err := tdigest.Open(c.Tx, c.Args[1]); err == nil {
		return tdigest.ErrExists
	} else if err != tdigest.ErrNotFound {
		return err
	}
	if len(c.Args) == 4 {
		if !EqualFold(c.Args[2], "COMPRESSION") {
			return errTDKeyword
		}
		var err error
		if compression, err = parseCompression(c.Args[3]); err != nil {
			return err
		}
	}
	return replyOK(c, tdigest.Create(c.Tx, c.Args[1], compression))
}

func tdigestAdd(c *Ctx, d tdigest.Digest) error {
	var room [64]float64
	values := room[:0]
	for _, arg := range c.Args[2:] {
		f, ok := ParseFloat(arg)
		if !ok {
			return errTDVal
		}
		if math.IsInf(f, 0) {
			return errTDFinite
		}
		values = append(values, f)
	}
	return replyOK(c, d.Add(values))
}

func tdigestMerge(c *Ctx) error {
	if _, err := tdigest.Open(c.Tx, c.Args[1]); err != nil && err != tdigest.ErrNotFound {
		return err
	}
	n, ok := ParseInt(c.Args[2])
	switch {
	case !ok:
		return errTDNumKeys
	case n <= 0:
		return errTDFewKeys
	case n > int64(len(c.Args)-3):
		return wrongArgs(c.Spec.FullName())
	}
	var o tdigest.MergeOptions
	w := options{args: c.Args[3+n:]}
	for w.more() {
		switch {
		case w.has("COMPRESSION", 1):
			o.Compression, w.err = parseCompression(w.next())
		case w.is("COMPRESSION"):
			w.err = wrongArgs(c.Spec.FullName())
		case w.flag("OVERRIDE", &o.Override):
		default:
			w.err = errTDKeyword
		}
	}
	if w.err != nil {
		return w.err
	}
	return replyOK(c, tdigest.Merge(c.Tx, c.Args[1], c.Args[3:3+n], o))
}

func tdigestReset(c *Ctx, d tdigest.Digest) error {
	d.Reset()
	return replyOK(c, nil)
}

// tdigestEnd is TDIGEST.MIN and TDIGEST.MAX. The reply is NaN when there are no observations.
func tdigestEnd(c *Ctx, d tdigest.Digest) error {
	switch m := &d.Meta; {
	case m.TotalWeight <= 0:
		c.Out.Double(math.NaN())
	case c.Spec.Name == "tdigest.min":
		c.Out.Double(m.Min)
	default:
		c.Out.Double(m.Max)
	}
	return nil
}

// estimate makes the handler of a command that parses all arguments behind the key, and then replies with an estimate
// for each.
func estimate[T any, R int64 | float64](parse func(arg []byte) (T, error), f func(*tdigest.Sketch, T) R) Handler {
	return onDigest(func(c *Ctx, d tdigest.Digest) (err error) {
		list := make([]T, len(c.Args)-2)
		for i, arg := range c.Args[2:] {
			if list[i], err = parse(arg); err != nil {
				return err
			}
		}
		s, err := d.Sketch()
		if err != nil {
			return err
		}
		c.Out.Array(len(list))
		for _, arg := range list {
			switch x := any(f(s, arg)).(type) {
			case int64:
				c.Out.Int(x)
			case float64:
				c.Out.Double(x)
			}
		}
		return nil
	})
}

// floatOr returns a parser of floats whose error is err.
func floatOr(err error) func(arg []byte) (float64, error) {
	return func(arg []byte) (float64, error) {
		f, ok := ParseFloat(arg)
		if !ok {
			return 0, err
		}
		return f, nil
	}
}

func parseQuantile(arg []byte) (float64, error) {
	q, err := floatOr(errTDQuantile)(arg)
	if err == nil && (q < 0 || q > 1) {
		err = errTDUnit
	}
	return q, err
}

func parseRank(arg []byte) (uint64, error) {
	n, ok := ParseInt(arg)
	switch {
	case !ok:
		return 0, errTDRank
	case n < 0:
		return 0, errTDNegative
	}
	return uint64(n), nil
}

func tdigestTrimmedMean(c *Ctx, d tdigest.Digest) error {
	low, err := floatOr(errTDLow)(c.Args[2])
	if err != nil {
		return err
	}
	high, err := floatOr(errTDHigh)(c.Args[3])
	switch {
	case err != nil:
		return err
	case low < 0 || low > 1 || high < 0 || high > 1:
		return errTDCut
	case low >= high:
		return errTDCutOrder
	}
	s, err := d.Sketch()
	if err != nil {
		return err
	}
	c.Out.Double(s.TrimmedMean(low, high))
	return nil
}

func tdigestInfo(c *Ctx, d tdigest.Digest) error {
	m := &d.Meta
	return replyCounts(c, []labelled{
		{"Compression", uint64(m.Compression)}, {"Capacity", uint64(m.Capacity)}, {"Merged nodes", m.Merged},
		{"Unmerged nodes", m.Unmerged}, {"Merged weight", m.MergedWeight},
		{"Unmerged weight", m.TotalWeight - min(m.MergedWeight, m.TotalWeight)}, {"Observations", m.Observations},
		{"Total compressions", m.Merges}, {"Memory usage", d.Bytes()},
	})
}
