package loadgen

import (
	"math"
	"math/rand/v2"
)

// Theta is the exponent of YCSB's zipfian distribution. (math/rand's Zipf takes exponents above 1 only.)
const Theta = 0.99

// Zipf draws ranks: rank r comes with a probability proportional to 1/(r+1)^Theta. The method is that of Gray et al.,
// "Quickly generating billion-record synthetic databases", SIGMOD 1994.
type Zipf struct {
	n                 float64
	alpha, zeta, half float64
	eta               float64
}

// NewZipf draws below n, which is at least 2. It takes time proportional to n.
func NewZipf(n int) *Zipf {
	zeta := 0.0
	for i := 1; i <= n; i++ {
		zeta += math.Pow(float64(i), -Theta)
	}
	half := 1 + math.Pow(0.5, Theta)
	z := &Zipf{n: float64(n), alpha: 1 / (1 - Theta), zeta: zeta, half: half}
	z.eta = (1 - math.Pow(2/z.n, 1-Theta)) / (1 - half/zeta)
	return z
}

// Next draws a rank.
func (z *Zipf) Next(r *rand.Rand) int {
	u := r.Float64()
	switch uz := u * z.zeta; {
	case uz < 1:
		return 0
	case uz < z.half:
		return 1
	}
	return min(int(z.n*math.Pow(z.eta*u-z.eta+1, z.alpha)), int(z.n)-1)
}
