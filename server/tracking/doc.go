// Package tracking records which client has read which key, and notifies the client when the key changes (CLIENT
// TRACKING).
//
// A key is remembered before it is read, so a commit that the reader has not seen finds the key in the table. While a
// client's commands run, messages for it wait until the replies are on their way: a client never gets an old value
// after the invalidation message for it. Messages are caused by commits and flushes (the engine calls the Table as
// its Observer), by the expiry of a key, and by the table's limit.
package tracking
