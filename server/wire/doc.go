// Package wire moves bytes to and from one client, plain or with TLS, and never blocks the sender.
//
// A Conn has two halves. The receiving half reads into a buffer that exists only while it holds something: Fill waits
// for bytes, Input returns the bytes that are not consumed yet, Consume drops them. The sending half queues the bytes
// that the socket does not take at once, up to a limit: Reply and Send for its own goroutine, and a Batch for
// messages from other connections.
//
// The package moves bytes only: it knows neither commands nor the protocol nor the settings.
package wire
