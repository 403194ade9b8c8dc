package timeseries

import (
	"math"

	"github.com/basaltdb/basalt/cf"
)

// nan is Kvrocks's; Go's has other bits, which a rule would show.
var nan = math.Float64frombits(0x7ff8 << 48)

// Aggregation divides time into buckets and says how the samples of a bucket become one.
type Aggregation struct {
	Function  cf.Aggregator // cf.AggNone = no aggregation
	Bucket    uint64        // length of a bucket in ms
	Alignment uint64        // a time at which a bucket begins
}

// BeginOf returns the begin of the bucket of a time. The first bucket begins at 0, and may be shorter.
func (a *Aggregation) BeginOf(ts uint64) uint64 {
	r := a.Alignment % a.Bucket
	if ts < r {
		return 0
	}
	return ts - (ts-r)%a.Bucket
}

// EndOf returns the end of the bucket of a time, the largest integer when it would be beyond that.
func (a *Aggregation) EndOf(ts uint64) uint64 {
	begin := a.BeginOf(ts)
	if r := a.Alignment % a.Bucket; begin < r {
		return r
	}
	if begin > math.MaxUint64-a.Bucket {
		return math.MaxUint64
	}
	return begin + a.Bucket
}

// Accumulator is what the aggregators know of some samples, which are added in the order of their timestamps.
type Accumulator struct {
	n           uint64
	sum, square float64
	min, max    float64
	first, last cf.Sample
}

// Add adds a sample.
func (a *Accumulator) Add(s cf.Sample) {
	if a.n == 0 {
		a.min, a.max, a.first = s.Value, s.Value, s
	} else {
		a.min, a.max = min(a.min, s.Value), max(a.max, s.Value)
	}
	a.n++
	a.sum += s.Value
	a.square += s.Value * s.Value
	a.last = s
}

// Value returns the aggregate of the samples, of which there must be one.
func (a *Accumulator) Value(f cf.Aggregator) float64 {
	n := float64(a.n)
	switch f {
	case cf.AggSum:
		return a.sum
	case cf.AggMin:
		return a.min
	case cf.AggMax:
		return a.max
	case cf.AggCount:
		return n
	case cf.AggFirst:
		return a.first.Value
	case cf.AggLast:
		return a.last.Value
	case cf.AggAvg:
		return a.sum / n
	case cf.AggRange:
		return a.max - a.min
	case cf.AggStdP:
		return math.Sqrt(a.deviation() / n)
	case cf.AggVarP:
		return a.deviation() / n
	}
	if a.n == 1 {
		return 0
	}
	if f == cf.AggStdS {
		return math.Sqrt(a.deviation() / (n - 1))
	}
	return a.deviation() / (n - 1)
}

// deviation returns the sum of the squared distances from the mean. Rounding must not make it negative.
func (a *Accumulator) deviation() float64 { return max(a.square-a.sum*a.sum/float64(a.n), 0) }

// aggregation returns the aggregation of a rule.
func (r *Rule) aggregation() Aggregation { return Aggregation{r.Aggregator, r.Bucket, r.Alignment} }

// accumulator returns what a rule knows of the samples of its latest bucket, as far as its aggregator needs it.
func (r *Rule) accumulator() (a Accumulator) {
	d := r.Doubles
	some := uint64(0) // the number of samples, if only 0 matters
	if !math.IsNaN(d[0]) {
		some = 1
	}
	switch r.Aggregator {
	case cf.AggSum:
		a.n, a.sum = some, d[0]
	case cf.AggMin, cf.AggMax:
		a.n, a.min, a.max = some, d[0], d[0]
	case cf.AggCount:
		a.n = uint64(max(d[0], 0))
	case cf.AggFirst, cf.AggLast:
		a.n = some
		a.first = cf.Sample{Timestamp: r.Integer, Value: d[0]}
		a.last = a.first
	case cf.AggAvg:
		a.n, a.sum = r.Integer, d[0]
	case cf.AggRange:
		a.n, a.min, a.max = some, d[0], d[1]
	default:
		a.n, a.sum, a.square = r.Integer, d[0], d[1]
	}
	return a
}

// remember stores what the aggregator of a rule needs of the samples of the latest bucket.
func (r *Rule) remember(a *Accumulator) {
	r.Integer, r.Doubles = 0, [2]float64{}
	if a.n == 0 {
		a.min, a.max, a.first, a.last = nan, nan, cf.Sample{Timestamp: math.MaxUint64, Value: nan}, cf.Sample{Value: nan}
	}
	switch d := &r.Doubles; r.Aggregator {
	case cf.AggSum:
		d[0] = a.sum
	case cf.AggMin:
		d[0] = a.min
	case cf.AggMax:
		d[0] = a.max
	case cf.AggCount:
		d[0] = float64(a.n)
	case cf.AggFirst:
		r.Integer, d[0] = a.first.Timestamp, a.first.Value
	case cf.AggLast:
		r.Integer, d[0] = a.last.Timestamp, a.last.Value
	case cf.AggAvg:
		r.Integer, d[0] = a.n, a.sum
	case cf.AggRange:
		d[0], d[1] = a.min, a.max
	default:
		r.Integer, d[0], d[1] = a.n, a.sum, a.square
	}
}
