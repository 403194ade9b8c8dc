// Package json is the JSON document type: RedisJSON's commands JSON.* on documents in Kvrocks's layout.
//
// # Layout
//
// A document is one record in the metadata family, without a version (see package cf):
//
//	flags · expire · u8 format · document
//
// Format 0 is text without white space between the tokens, format 1 is CBOR (RFC 8949). Both can always be read;
// [Options] selects the format for writing.
//
// # Values
//
// The members of an object keep the order in which they were added. (Kvrocks sorts them by name; documents that it
// wrote have that order.) When a name is repeated in a text, the last value counts, at the position of the first.
// Integers keep all their digits. Other numbers are doubles, printed with the fewest digits that identify the double.
//
// # Paths
//
// A path is a JSONPath ($.a[0]) or a legacy path (.a[0] or a[0]), see [ParsePath]. The syntax is RedisJSON's, with the
// additions of RFC 9535 that do not contradict it. The package has its own evaluator, because paths such as $.a-b,
// $.a.["b"] and legacy paths are not RFC 9535, results must have RedisJSON's order (a value before its content), writes
// need the position of a result in the document, and the work of one path must be limited ([ErrTooMuchWork]).
//
// The package also has its own CBOR codec: libraries decode a map into a Go map, which loses the order of the members
// and which of two equal names came last. The tests check the codec with one of them.
//
// # Functions
//
// Commands read a [Document]. Functions that write (Set, Merge, ArrAppend and so on) take the transaction and the key,
// which must be locked for writing; [engine.DB.Update] does that. Functions that change every result of a path return
// one [Result] for each. All of them keep the expiry, and write nothing when they return an error.
//
// # Nesting
//
// The nesting depth of documents is limited by [Options], and never exceeds [MaxDepth]: the functions that walk a
// document are recursive.
package json
