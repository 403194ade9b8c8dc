// Package shim is the C++ side of package rocks: what grocksdb lacks, and what must be a single cgo call (shim.h). It
// is a package of its own so that a change of Go code, and the tests of package rocks, do not compile it anew.
//
// It calls two Go functions that package rocks exports, and therefore links only together with that package.
package shim

// #cgo CXXFLAGS: -std=c++17 -O2
import "C"
