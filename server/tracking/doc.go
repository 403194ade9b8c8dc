// Package tracking knows which client has read which key, and tells it when the key changes (CLIENT TRACKING).
//
// A key is remembered before it is read, so a commit that the reader has not seen finds it in the table. Messages for
// a client whose commands run wait until their replies are on the way: a client never gets the old value after the
// message that it is old. Messages come from commits and flushes, of which the engine tells the Table as its Observer,
// from the expiry of a key, and from the table's limit.
package tracking
