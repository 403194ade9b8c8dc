// Package tool is what the programs that measure servers share: how they begin and end, and means of their figures.
package tool

import (
	"context"
	"fmt"
	"math"
	"os"
	"os/signal"
	"slices"
	"syscall"
)

// Main runs a program, whose context ends when the program is interrupted. After an error it exits with status 1.
func Main(name string, run func(ctx context.Context) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}

// Median returns the median of a list; NaN for an empty list.
func Median(list []float64) float64 {
	if len(list) == 0 {
		return math.NaN()
	}
	s := slices.Sorted(slices.Values(list))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// GeometricMean returns the geometric mean of positive numbers; NaN for an empty list.
func GeometricMean(list []float64) float64 {
	sum := 0.0
	for _, x := range list {
		sum += math.Log(x)
	}
	return math.Exp(sum / float64(len(list)))
}
