package command

import (
	"bytes"
	"math"
	"slices"
	"strings"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/timeseries"
)

var (
	errTSAggregator = engine.NewError("ERR", "Invalid aggregator type")
	errTSBucket     = engine.NewError("ERR", "Couldn't parse AGGREGATION")
	errTSNoBucket   = engine.NewError("ERR", "bucketDuration must be greater than zero")
	errTSAlign      = engine.NewError("ERR", "unknown ALIGN parameter")
	errTSAlignFrom  = engine.NewError("ERR", "start alignment can only be used with explicit start timestamp")
	errTSAlignTo    = engine.NewError("ERR", "end alignment can only be used with explicit end timestamp")
	errTSAlignOnly  = engine.NewError("ERR", "ALIGN parameter can only be used with AGGREGATION")
	errTSCount      = engine.NewError("ERR", "Couldn't parse COUNT")
	errTSCountZero  = engine.NewError("ERR", "Invalid COUNT value")
	errTSValues     = engine.NewError("ERR", "Invalid min or max value")
	errTSBucketTime = engine.NewError("ERR", "BUCKETTIMESTAMP flag should be the 3rd or 4th flag after AGGREGATION flag")
	errTSBucketWord = engine.NewError("ERR", "unknown BUCKETTIMESTAMP parameter")
	errTSEmpty      = engine.NewError("ERR", "EMPTY flag should be the 3rd or 5th flag after AGGREGATION flag")
	errTSNoFilter   = engine.NewError("ERR", "missing FILTER argument")
	errTSReducer    = engine.NewError("ERR", "Invalid reducer type")
	errTSDenied     = engine.NewError("NOPERM", "No permissions to read all keys, as labels may find any of them")
	errTSMGet       = engine.NewError("ERR", "TS.MGet is not supported in cluster mode")
	errTSMRange     = engine.NewError("ERR", "TS.MRANGE is not supported in cluster mode")
	errTSQueryIndex = engine.NewError("ERR", "TS.QueryIndex is not supported in cluster mode")
)

// aggregation parses an aggregator and the length of a bucket.
func (o *tsOptions) aggregation(a *timeseries.Aggregation) {
	i := o.index(tsAggregators, errTSAggregator)
	o.check(i > 0, errTSAggregator)
	a.Function = cf.Aggregator(i)
	o.check(o.uint(&a.Bucket), errTSBucket)
	o.check(a.Bucket > 0, errTSNoBucket)
}

// tsQuery are the options of commands that read samples.
type tsQuery struct {
	timeseries.Range
	filter     *timeseries.Filter // nil = there was no FILTER
	withLabels bool
	selected   [][]byte // labels
	group      []byte   // GROUPBY; nil = none
	reducer    cf.Aggregator
}

// The words that end a list of words: those of commands that find time series by their labels.
var tsKeywords = []string{"LATEST", "FILTER_BY_TS", "FILTER_BY_VALUE", "COUNT", "ALIGN", "AGGREGATION",
	"BUCKETTIMESTAMP", "EMPTY", "WITHLABELS", "SELECTED_LABELS", "FILTER", "GROUPBY"}

// list takes the words up to the next keyword.
func (o *tsOptions) list() [][]byte {
	n := slices.IndexFunc(o.args, func(word []byte) bool { return wordIn(tsKeywords, word) >= 0 })
	if n < 0 {
		n = len(o.args)
	}
	list := o.args[:n]
	o.args = o.args[n:]
	return list
}

// parse parses options. from and to are the bounds of the range as they were given; nil for a command without.
func (q *tsQuery) parse(c *Ctx, args [][]byte, from, to []byte) error {
	w := tsOptions{options{args: args}}
	ranged, aligned := from != nil, false
	for w.more() {
		switch {
		case w.is("LATEST"):
			q.Latest = true
		case ranged && w.is("FILTER_BY_TS"):
			q.Timestamps = []uint64{}
			for ts := uint64(0); w.uint(&ts); {
				q.Timestamps = append(q.Timestamps, ts)
			}
			slices.Sort(q.Timestamps)
		case ranged && w.is("FILTER_BY_VALUE"):
			least, ok := ParseFloat(w.next())
			most, ok2 := ParseFloat(w.next())
			w.check(ok && ok2, errTSValues)
			q.Values = &[2]float64{least, most}
		case ranged && w.is("COUNT"):
			w.check(w.uint(&q.Count), errTSCount)
			w.check(q.Count > 0, errTSCountZero)
		case ranged && w.is("ALIGN"):
			aligned = true
			q.align(&w, from, to)
		case ranged && w.is("AGGREGATION"):
			w.aggregation(&q.Aggregation)
		case ranged && w.is("BUCKETTIMESTAMP"):
			w.check(q.Function != cf.AggNone, errTSBucketTime)
			i := w.index([]string{"START", "END", "MID", "-", "+", "~", "LOW", "HIGH"}, errTSBucketWord)
			q.BucketTime = timeseries.BucketTime(i % 3)
		case ranged && w.is("EMPTY"):
			w.check(q.Function != cf.AggNone, errTSEmpty)
			q.Empty = true
		case w.is("WITHLABELS"):
			q.withLabels = true
		case w.is("SELECTED_LABELS"):
			q.selected = append(q.selected, w.list()...)
		case w.is("FILTER"):
			if q.filter == nil {
				q.filter = &timeseries.Filter{}
			}
			for _, matcher := range w.list() {
				w.fail(q.filter.Add(matcher))
			}
		case w.is("GROUPBY"):
			if len(w.args) < 3 || !EqualFold(w.args[1], "REDUCE") {
				return wrongArgs(c.Spec.FullName())
			}
			q.group = w.args[0]
			w.args = w.args[2:]
			i := w.index(tsAggregators, errTSReducer)
			w.check(i > 0 && i != int(cf.AggFirst) && i != int(cf.AggLast), errTSReducer)
			q.reducer = cf.Aggregator(i)
		default:
			w.next()
		}
	}
	w.check(!aligned || q.Function != cf.AggNone, errTSAlignOnly)
	return w.err
}

// align takes the value of ALIGN.
func (q *tsQuery) align(w *tsOptions, from, to []byte) {
	switch {
	case w.uint(&q.Alignment):
	case w.is("-"), w.is("START"):
		w.check(string(from) != "-", errTSAlignFrom)
		q.Alignment = q.From
	case w.is("+"), w.is("END"):
		w.check(string(to) != "+", errTSAlignTo)
		q.Alignment = q.To
	default:
		w.err = errTSAlign
	}
}

// parseTSQuery parses the options of a command whose range begins at an argument, and checks the filter of a command
// that has one.
func parseTSQuery(c *Ctx, at int, filtered bool) (*tsQuery, error) {
	q := &tsQuery{}
	from, to := c.Args[at], c.Args[at+1]
	if err := tsSpan(from, to, &q.Range); err != nil {
		return nil, err
	}
	if err := q.parse(c, c.Args[at+2:], from, to); err != nil {
		return nil, err
	}
	if filtered {
		return q, q.checkFilter(c)
	}
	return q, nil
}

func (q *tsQuery) checkFilter(c *Ctx) error {
	if q.filter == nil {
		return errTSNoFilter
	}
	if err := q.filter.Check(); err != nil {
		return err
	}
	if !mayReadAllKeys(c) {
		return errTSDenied
	}
	return nil
}

func writeSample(c *Ctx, s cf.Sample) {
	c.Out.Array(2)
	c.Out.Int(int64(s.Timestamp))
	c.Out.Double(s.Value)
}

func tsGet(c *Ctx) error {
	s, err := timeseries.Open(c.Tx, c.Args[1])
	if err != nil {
		return err
	}
	return writeNewest(c, s, slices.ContainsFunc(c.Args[2:], func(w []byte) bool { return EqualFold(w, "LATEST") }))
}

// writeNewest replies with the newest sample, or an empty array. With latest, that is the aggregate of the latest
// bucket of a time series that is aggregated from another one.
func writeNewest(c *Ctx, s *timeseries.Series, latest bool) (err error) {
	var sample cf.Sample
	ok := false
	if latest {
		sample, ok, err = s.Latest()
	}
	if !ok && err == nil {
		sample, ok, err = s.Newest()
	}
	switch {
	case err != nil:
		return err
	case ok:
		writeSample(c, sample)
	default:
		c.Out.Array(0)
	}
	return nil
}

// tsRange is TS.RANGE and TS.REVRANGE.
func tsRange(c *Ctx) error {
	q, err := parseTSQuery(c, 2, false)
	if err != nil {
		return err
	}
	s, err := timeseries.Open(c.Tx, c.Args[1])
	if err != nil {
		return err
	}
	q.Reverse = c.Spec.Name == "ts.revrange"
	return writeRange(c, s, &q.Range)
}

func writeRange(c *Ctx, s *timeseries.Series, r *timeseries.Range) error {
	mark, n := c.Out.Mark(), 0
	err := s.Range(r, func(sample cf.Sample) bool {
		writeSample(c, sample)
		n++
		return !c.Out.Overflowed()
	})
	c.Out.InsertArray(mark, n)
	return err
}

func tsInfo(c *Ctx) error {
	s, err := timeseries.Open(c.Tx, c.Args[1])
	if err == timeseries.ErrNotFound {
		return errTSNotSeries
	}
	if err != nil {
		return err
	}
	labels, err := s.Labels()
	if err != nil {
		return err
	}
	rules, err := s.Rules()
	if err != nil {
		return err
	}
	source, _, err := s.Source()
	if err != nil {
		return err
	}
	newest, _, err := s.Newest()
	if err != nil {
		return err
	}
	var first cf.Sample
	err = s.Range(&timeseries.Range{To: math.MaxUint64, Count: 1}, func(sample cf.Sample) bool {
		first = sample
		return true
	})
	if err != nil {
		return err
	}
	m := &s.Meta
	c.Out.Map(12)
	field := func(name string, n uint64) {
		c.Out.SimpleString(name)
		c.Out.Int(int64(n))
	}
	field("totalSamples", s.Chunks()*m.ChunkSize)
	field("memoryUsage", 0)
	field("firstTimestamp", first.Timestamp)
	field("lastTimestamp", newest.Timestamp)
	field("retentionTime", m.Retention)
	field("chunkCount", s.Chunks())
	field("chunkSize", m.ChunkSize)
	c.Out.SimpleString("chunkType")
	c.Out.SimpleString(tsName(tsChunkTypes, int(m.ChunkType)))
	c.Out.SimpleString("duplicatePolicy")
	c.Out.SimpleString(tsName(tsPolicies, int(m.Policy)))
	c.Out.SimpleString("labels")
	writeLabels(c, labels)
	c.Out.SimpleString("sourceKey")
	bulkOrNull(c, m.Source, source != nil)
	c.Out.SimpleString("rules")
	resp3 := c.Out.Proto == 3
	if resp3 {
		c.Out.Map(len(rules))
	} else {
		c.Out.Array(len(rules))
	}
	for i := range rules {
		r := &rules[i]
		if !resp3 {
			c.Out.Array(4)
		}
		c.Out.Bulk(r.Target)
		if resp3 {
			c.Out.Array(3)
		}
		c.Out.Int(int64(r.Bucket))
		c.Out.SimpleString(tsName(tsAggregators, int(r.Aggregator)))
		c.Out.Int(int64(r.Alignment))
	}
	return nil
}

// writeLabels writes labels: pairs in RESP2, a map in RESP3. An empty value is null.
func writeLabels(c *Ctx, labels []timeseries.Label) {
	resp3 := c.Out.Proto == 3
	if resp3 {
		c.Out.Map(len(labels))
	} else {
		c.Out.Array(len(labels))
	}
	for _, l := range labels {
		if !resp3 {
			c.Out.Array(2)
		}
		c.Out.Bulk(l.Name)
		bulkOrNull(c, l.Value, len(l.Value) > 0)
	}
}

// show returns the labels that the reply has of a time series.
func (q *tsQuery) show(labels []timeseries.Label) (shown []timeseries.Label) {
	if q.withLabels {
		return labels
	}
	for _, name := range q.selected {
		shown = append(shown, timeseries.Label{Name: name, Value: valueOf(labels, name)})
	}
	return shown
}

// valueOf returns the value of a label, nil if it does not exist.
func valueOf(labels []timeseries.Label, name []byte) []byte {
	for _, l := range labels {
		if bytes.Equal(l.Name, name) {
			return l.Value
		}
	}
	return nil
}

// found replies with what each does of every time series that the filter finds: an array of keys with n values each in
// RESP2, a map from the keys to the values and more facts in RESP3.
func (q *tsQuery) found(c *Ctx, n, n3 int, each func(s *timeseries.Series) error) error {
	mark, series := c.Out.Mark(), 0
	err := timeseries.Find(c.Tx, q.filter, func(s *timeseries.Series, labels []timeseries.Label) error {
		series++
		beginSeries(c, s.Key(), n, n3)
		writeLabels(c, q.show(labels))
		return each(s)
	})
	if c.Out.Proto == 3 {
		c.Out.InsertMap(mark, series)
	} else {
		c.Out.InsertArray(mark, series)
	}
	return err
}

// beginSeries begins the part of a reply about one time series, with n values in RESP2 and n3 in RESP3.
func beginSeries(c *Ctx, key []byte, n, n3 int) {
	if c.Out.Proto == 3 {
		c.Out.Bulk(key)
		c.Out.Array(n3)
		return
	}
	c.Out.Array(1 + n)
	c.Out.Bulk(key)
}

// writeFact writes a map from a name to a list, which only RESP3 has.
func writeFact(c *Ctx, name string, list ...string) {
	if c.Out.Proto != 3 {
		return
	}
	c.Out.Map(1)
	c.Out.BulkString(name)
	writeBulks(c.Out, list)
}

func tsMGet(c *Ctx) error {
	if c.Tx.DB().Slots() {
		return errTSMGet
	}
	q := &tsQuery{}
	if err := q.parse(c, c.Args[1:], nil, nil); err != nil {
		return err
	}
	if err := q.checkFilter(c); err != nil {
		return err
	}
	return q.found(c, 2, 2, func(s *timeseries.Series) error { return writeNewest(c, s, q.Latest) })
}

// tsMRange is TS.MRANGE and TS.MREVRANGE.
func tsMRange(c *Ctx) error {
	if c.Tx.DB().Slots() {
		return errTSMRange
	}
	q, err := parseTSQuery(c, 1, true)
	if err != nil {
		return err
	}
	q.Reverse = c.Spec.Name == "ts.mrevrange"
	if q.group != nil {
		return q.groups(c)
	}
	var aggregators []string
	if q.Function != cf.AggNone {
		aggregators = []string{tsName(tsAggregators, int(q.Function))}
	}
	return q.found(c, 2, 3, func(s *timeseries.Series) error {
		writeFact(c, "aggregators", aggregators...)
		return writeRange(c, s, &q.Range)
	})
}

// tsGroup are the time series that have the same value of a label.
type tsGroup struct {
	value   []byte
	sources []string // user keys
	samples []cf.Sample
}

// groups replies with one list of samples for each value of a label.
func (q *tsQuery) groups(c *Ctx) error {
	groups := map[string]*tsGroup{}
	var values []string
	err := timeseries.Find(c.Tx, q.filter, func(s *timeseries.Series, labels []timeseries.Label) error {
		value := valueOf(labels, q.group)
		if value == nil {
			return nil
		}
		g := groups[string(value)]
		if g == nil {
			g = &tsGroup{value: value}
			groups[string(value)] = g
			values = append(values, string(value))
		}
		g.sources = append(g.sources, string(s.Key()))
		return s.Range(&q.Range, func(sample cf.Sample) bool {
			g.samples = append(g.samples, sample)
			return true
		})
	})
	if err != nil {
		return err
	}
	slices.Sort(values)
	resp3, reducer := c.Out.Proto == 3, tsName(tsAggregators, int(q.reducer))
	if resp3 {
		c.Out.Map(len(values))
	} else {
		c.Out.Array(len(values))
	}
	for _, value := range values {
		g := groups[value]
		labels := q.show([]timeseries.Label{{Name: q.group, Value: g.value}})
		if q.withLabels && !resp3 {
			labels = append(labels, timeseries.Label{Name: []byte("__reducer__"), Value: []byte(reducer)},
				timeseries.Label{Name: []byte("__source__"), Value: []byte(strings.Join(g.sources, ","))})
		}
		beginSeries(c, slices.Concat(q.group, []byte("="), g.value), 2, 4)
		writeLabels(c, labels)
		writeFact(c, "reducers", reducer)
		writeFact(c, "sources", g.sources...)
		samples := timeseries.Reduce(g.samples, q.reducer)
		if q.Reverse {
			slices.Reverse(samples)
		}
		if q.Count > 0 { // the time series together may have more; the last ones lack values that Range did not read
			samples = samples[:min(uint64(len(samples)), q.Count)]
		}
		c.Out.Array(len(samples))
		for _, sample := range samples {
			writeSample(c, sample)
		}
	}
	return nil
}

func tsQueryIndex(c *Ctx) error {
	if c.Tx.DB().Slots() {
		return errTSQueryIndex
	}
	q := &tsQuery{filter: &timeseries.Filter{}}
	for _, matcher := range c.Args[1:] {
		if err := q.filter.Add(matcher); err != nil {
			return err
		}
	}
	if err := q.checkFilter(c); err != nil {
		return err
	}
	mark, n := c.Out.Mark(), 0
	err := timeseries.Find(c.Tx, q.filter, func(s *timeseries.Series, _ []timeseries.Label) error {
		n++
		c.Out.Bulk(s.Key())
		return nil
	})
	c.Out.InsertSet(mark, n)
	return err
}
