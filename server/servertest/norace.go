//go:build !race

package servertest

// RaceEnabled says that the race detector is on.
const RaceEnabled = false
