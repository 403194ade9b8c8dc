package command

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/timeseries"
)

var tsCommands = []Spec{
	{Name: "ts.create", Handler: tsCreate, Arity: -2, Flags: Write | DenyOOM},
	{Name: "ts.alter", Handler: tsAlter, Arity: -2, Flags: Write | DenyOOM},
	{Name: "ts.add", Handler: tsAdd, Arity: -4, Flags: Write | DenyOOM},
	{Name: "ts.madd", Handler: tsMAdd, Arity: -4, Flags: Write | DenyOOM},
	{Name: "ts.incrby", Handler: tsIncrBy, Arity: -3, Flags: Write | DenyOOM},
	{Name: "ts.decrby", Handler: tsIncrBy, Arity: -3, Flags: Write | DenyOOM},
	{Name: "ts.del", Handler: tsDel, Arity: 4, Flags: Write},
	{Name: "ts.deleterule", Handler: tsDeleteRule, Arity: 3, Flags: Write | Fast},
	{Name: "ts.createrule", Handler: tsCreateRule, Arity: -6, Flags: Write | DenyOOM},
	{Name: "ts.get", Handler: tsGet, Arity: -2, Flags: ReadOnly},
	{Name: "ts.info", Handler: tsInfo, Arity: -2, Flags: ReadOnly},
	{Name: "ts.range", Handler: tsRange, Arity: -4, Flags: ReadOnly},
	{Name: "ts.revrange", Handler: tsRange, Arity: -4, Flags: ReadOnly},
	{Name: "ts.mget", Handler: tsMGet, Arity: -3, Flags: ReadOnly},
	{Name: "ts.mrange", Handler: tsMRange, Arity: -5, Flags: ReadOnly},
	{Name: "ts.mrevrange", Handler: tsMRange, Arity: -5, Flags: ReadOnly},
	{Name: "ts.queryindex", Handler: tsQueryIndex, Arity: -2, Flags: ReadOnly},
}

// The error texts are those of Kvrocks.
var (
	errTSRetention = engine.NewError("ERR", "Couldn't parse RETENTION")
	errTSChunkSize = engine.NewError("ERR", "invalid CHUNK_SIZE")
	errTSEncoding  = engine.NewError("ERR", "unknown ENCODING parameter")
	errTSPolicy    = engine.NewError("ERR", "Unknown DUPLICATE_POLICY")
	errTSLabels    = engine.NewError("ERR", "Couldn't parse LABELS")
	errTSTimestamp = engine.NewError("ERR", "invalid timestamp")
	errTSValue     = engine.NewError("ERR", "invalid value")
	errTSOld       = engine.NewError("ERR", "Timestamp is older than retention")
	errTSBlock     = engine.NewError("ERR", "Error at upsert, update is not supported when DUPLICATE_POLICY is set to "+
		"BLOCK mode")
	errTSNotSeries = engine.NewError("ERR", "the key is not a TSDB key")
	errTSNotNewer  = engine.NewError("ERR", "timestamp must be equal to or higher than the maximum existing timestamp")
	errTSNoCluster = engine.NewError("ERR", "Specifying LABELS is not supported in cluster mode")
	errTSFrom      = engine.NewError("ERR", "wrong fromTimestamp")
	errTSTo        = engine.NewError("ERR", "wrong toTimestamp")
	errTSNoAgg     = engine.NewError("ERR", "AGGREGATION is required")
)

// tsOptions takes the options of a command. As in Kvrocks and RedisTimeSeries, unknown words are ignored.
type tsOptions struct{ options }

// uint takes an unsigned integer if one comes next.
func (o *tsOptions) uint(to *uint64) bool {
	if len(o.args) == 0 {
		return false
	}
	n, ok := ParseUint(o.args[0])
	if ok {
		*to = n
		o.next()
	}
	return ok
}

// index takes a word and returns its index in a list.
func (o *tsOptions) index(list []string, unknown error) int {
	i := wordIn(list, o.next())
	o.check(i >= 0, unknown)
	return i
}

// wordIn returns the index of a word in a list, in any case; -1 if it is not there.
func wordIn(list []string, word []byte) int {
	return slices.IndexFunc(list, func(name string) bool { return EqualFold(word, name) })
}

// The names of policies and aggregators, at the indexes that they have on the disk.
var (
	tsPolicies    = []string{"BLOCK", "FIRST", "LAST", "MIN", "MAX", "SUM"}
	tsAggregators = []string{"", "SUM", "MIN", "MAX", "COUNT", "FIRST", "LAST", "AVG", "RANGE", "STD.P", "STD.S", "VAR.P",
		"VAR.S"}
	tsChunkTypes = []string{"UNCOMPRESSED", "COMPRESSED"}
)

func tsName(list []string, i int) string {
	if i >= len(list) {
		return "unknown"
	}
	return string(bytes.ToLower([]byte(list[i])))
}

// tsCreation are the options of commands that create a time series.
type tsCreation struct {
	timeseries.Options
	timeseries.Change                    // which of the options were given
	onDuplicate       *timeseries.Policy // of TS.ADD
	timestamp         []byte             // of TS.INCRBY
}

func parseTSCreation(c *Ctx, args [][]byte) (*tsCreation, error) {
	o := &tsCreation{Options: timeseries.Options{ChunkSize: timeseries.DefaultChunkSize}}
	w := tsOptions{options{args: args}}
	policy := func() *timeseries.Policy {
		p := timeseries.Policy(w.index(tsPolicies, errTSPolicy))
		return &p
	}
	for w.more() {
		switch {
		case w.is("RETENTION"):
			w.check(w.uint(&o.Options.Retention), errTSRetention)
			o.Change.Retention = &o.Options.Retention
		case w.is("CHUNK_SIZE"):
			n := uint64(0)
			w.check(w.uint(&n) && n > 0 && n <= timeseries.MaxChunkSize, errTSChunkSize)
			o.Options.ChunkSize = n
			o.Change.ChunkSize = &o.Options.ChunkSize
		case w.is("ENCODING"):
			o.ChunkType = byte(w.index(tsChunkTypes, errTSEncoding))
		case w.is("DUPLICATE_POLICY"):
			o.Change.Policy = policy()
			o.Options.Policy = *o.Change.Policy
		case c.Spec.Name == "ts.add" && w.is("ON_DUPLICATE"):
			o.onDuplicate = policy()
		case c.Spec.Name != "ts.add" && w.is("TIMESTAMP"):
			o.timestamp = w.next()
		case w.is("LABELS"):
			w.check(len(w.args)%2 == 0, errTSLabels)
			for w.more() {
				o.Options.Labels = append(o.Options.Labels, timeseries.Label{Name: w.next(), Value: w.next()})
			}
			o.Change.Labels = &o.Options.Labels
		default:
			w.next()
		}
	}
	if w.err != nil {
		return nil, w.err
	}
	if c.Tx.DB().Slots() && len(o.Options.Labels) > 0 {
		return nil, errTSNoCluster
	}
	return o, nil
}

// tsTime parses the timestamp of a sample. The reply is a signed integer.
func tsTime(c *Ctx, b []byte) (uint64, error) {
	if string(b) == "*" {
		if c.Clock.IsZero() {
			return uint64(time.Now().UnixMilli()), nil
		}
		return uint64(c.Clock.UnixMilli()), nil
	}
	ts, ok := ParseUint(b)
	if !ok || ts > math.MaxInt64 {
		return 0, errTSTimestamp
	}
	return ts, nil
}

func tsCreate(c *Ctx) error {
	o, err := parseTSCreation(c, c.Args[2:])
	if err != nil {
		return err
	}
	_, err = timeseries.Create(c.Tx, c.Args[1], &o.Options)
	return replyOK(c, err)
}

func tsAlter(c *Ctx) error {
	o, err := parseTSCreation(c, c.Args[2:])
	if err != nil {
		return err
	}
	s, err := timeseries.Open(c.Tx, c.Args[1])
	if err != nil {
		return err
	}
	return replyOK(c, s.Alter(&o.Change))
}

func tsAdd(c *Ctx) error {
	ts, err := tsTime(c, c.Args[2])
	if err != nil {
		return err
	}
	v, ok := ParseFloat(c.Args[3])
	if !ok {
		return errTSValue
	}
	o, err := parseTSCreation(c, c.Args[4:])
	if err != nil {
		return err
	}
	s, err := timeseries.OpenOrCreate(c.Tx, c.Args[1], &o.Options)
	if err != nil {
		return err
	}
	s.Fed = c.tellFed
	policy := timeseries.Policy(s.Meta.Policy)
	if o.onDuplicate != nil {
		policy = *o.onDuplicate
	}
	results, err := s.Add([]cf.Sample{{Timestamp: ts, Value: v}}, policy, c.Lock)
	if err != nil {
		return err
	}
	if err := tsRefused(results[0]); err != nil {
		return err
	}
	return replyInt(c, ts, nil)
}

// tellFed adds the event of a time series that a rule has written to.
func (c *Ctx) tellFed(target []byte) { c.Tell(EventModule, "ts.add:dest", target) }

// tsRefused returns the error for a sample that was not added.
func tsRefused(r timeseries.Result) error {
	switch r {
	case timeseries.Blocked:
		return errTSBlock
	case timeseries.TooOld:
		return errTSOld
	}
	return nil
}

func tsMAdd(c *Ctx) error {
	if len(c.Args)%3 != 1 {
		return wrongArgs(c.Spec.FullName())
	}
	n := len(c.Args) / 3
	samples := make([]cf.Sample, n)
	for i := range samples {
		ts, ok := ParseUint(c.Args[3*i+2])
		if !ok || ts > math.MaxInt64 {
			return errTSTimestamp
		}
		v, ok := ParseFloat(c.Args[3*i+3])
		if !ok {
			return errTSValue
		}
		samples[i] = cf.Sample{Timestamp: ts, Value: v}
	}
	of := map[string][]int{} // the indexes of the samples of a key
	var keys []string
	for i := range samples {
		key := string(c.Args[3*i+1])
		if of[key] == nil {
			keys = append(keys, key)
		}
		of[key] = append(of[key], i)
	}
	refused := make([]error, n)
	for _, key := range keys {
		own := make([]cf.Sample, len(of[key]))
		for i, at := range of[key] {
			own[i] = samples[at]
		}
		results, err := tsAddAll(c, []byte(key), own)
		if _, ok := errors.AsType[*engine.Error](err); err != nil && !ok {
			return err
		}
		for i, at := range of[key] {
			if refused[at] = err; err == nil {
				refused[at] = tsRefused(results[i])
			}
		}
	}
	c.Out.Array(n)
	for i, err := range refused {
		if err != nil {
			WriteError(c.Out, err)
		} else {
			c.Out.Int(int64(samples[i].Timestamp))
		}
	}
	return nil
}

func tsAddAll(c *Ctx, key []byte, samples []cf.Sample) ([]timeseries.Result, error) {
	s, err := timeseries.Open(c.Tx, key)
	switch {
	case err == timeseries.ErrNotFound:
		return nil, errTSNotSeries
	case err != nil:
		return nil, err
	}
	s.Fed = c.tellFed
	return s.Add(samples, timeseries.Policy(s.Meta.Policy), c.Lock)
}

// tsIncrBy is TS.INCRBY and TS.DECRBY.
func tsIncrBy(c *Ctx) error {
	v, ok := ParseFloat(c.Args[2])
	if !ok {
		return errTSValue
	}
	if c.Spec.Name == "ts.decrby" {
		v = -v
	}
	o, err := parseTSCreation(c, c.Args[3:])
	if err != nil {
		return err
	}
	if o.timestamp == nil {
		o.timestamp = []byte("*")
	}
	ts, err := tsTime(c, o.timestamp)
	if err != nil {
		return err
	}
	s, err := timeseries.OpenOrCreate(c.Tx, c.Args[1], &o.Options)
	if err != nil {
		return err
	}
	s.Fed = c.tellFed
	newer, err := s.AddTo(cf.Sample{Timestamp: ts, Value: v}, c.Lock)
	if err != nil {
		return err
	}
	if !newer {
		return errTSNotNewer
	}
	return replyInt(c, ts, nil)
}

// tsSpan parses the bounds of a range of time.
func tsSpan(from, to []byte, r *timeseries.Range) error {
	var ok bool
	if r.From, ok = ParseUint(from); !ok && string(from) != "-" {
		return errTSFrom
	}
	if r.To, ok = ParseUint(to); !ok {
		if string(to) != "+" {
			return errTSTo
		}
		r.To = math.MaxUint64
	}
	return nil
}

func tsDel(c *Ctx) error {
	var r timeseries.Range
	if err := tsSpan(c.Args[2], c.Args[3], &r); err != nil {
		return err
	}
	s, err := timeseries.Open(c.Tx, c.Args[1])
	if err != nil {
		return err
	}
	n, err := s.Delete(r.From, r.To, c.Lock)
	return replyInt(c, n, err)
}

func tsCreateRule(c *Ctx) error {
	if len(c.Args) > 7 {
		return wrongArgs(c.Spec.FullName())
	}
	var a timeseries.Aggregation
	w := tsOptions{options{args: c.Args[3:]}}
	w.check(w.is("AGGREGATION"), errTSNoAgg)
	w.aggregation(&a)
	w.check(len(w.args) == 0 || w.uint(&a.Alignment), errTSAlign)
	if w.err != nil {
		return w.err
	}
	err := timeseries.CreateRule(c.Tx, c.Args[1], c.Args[2], a)
	if err == timeseries.ErrNotFound {
		return errTSNotSeries
	}
	return replyOK(c, err)
}

func tsDeleteRule(c *Ctx) error {
	err := timeseries.DeleteRule(c.Tx, c.Args[1], c.Args[2])
	if err == timeseries.ErrNotFound {
		return errTSNotSeries
	}
	return replyOK(c, err)
}
