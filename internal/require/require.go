// Package require ends a test that cannot go on.
package require

import (
	"os"
	"testing"
)

// NoError ends the test after an error.
func NoError(t testing.TB, err error) {
	if err != nil {
		t.Helper()
		t.Fatal(err)
	}
}

// File returns the content of a file.
func File(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	NoError(t, err)
	return b
}
