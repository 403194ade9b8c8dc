// Package json is the JSON document type: the commands JSON.* of RedisJSON on documents that are stored as
// Kvrocks stores them.
//
// # Layout
//
// A document is one record in the metadata family, without a version (see package cf):
//
//	flags · expire · u8 format · document
//
// Format 0 is text without white space between the tokens, format 1 is CBOR (RFC 8949). A record of either is
// read at any time; [Options] says how one is written.
//
// # Values
//
// The members of an object keep the order in which they were added. (Kvrocks sorts them by name; what it has
// written comes in that order.) When a name occurs twice in a text, the last value counts, at the first place.
// Integers keep all their digits. Other numbers are doubles and are printed with the fewest digits that give the
// same double again.
//
// # Paths
//
// A path is a JSONPath ($.a[0]) or a legacy path (.a[0] or a[0]), see [ParsePath]. The syntax is that of
// RedisJSON with the additions of RFC 9535 that do not contradict it. The package has an evaluator of its own:
// paths such as $.a-b, $.a.["b"] and the legacy ones are not RFC 9535, results come in RedisJSON's order with a value
// before what is in it, writes need to know where in the document a result is, and the work that one path can cause is
// bounded ([ErrTooMuchWork]).
//
// The CBOR codec is the package's own as well: libraries decode a map into one of Go, which has lost the order of the
// members and which of two equal names came last. One of them checks the codec in the tests.
//
// # Functions
//
// A [Document] is what commands read. The functions that write (Set, Merge, ArrAppend and the like) take the
// transaction and the key, which must be locked for writing; [engine.DB.Update] does that. Those that change every
// result of a path return one [Result] for each. All of them leave the expiry as it is, and write nothing when they
// return an error.
//
// # Nesting
//
// Documents are nested at most as deep as [Options] says, and never deeper than [MaxDepth]: the functions that
// walk a document are recursive.
package json
