// Package pubsub keeps the subscriptions of all clients, and delivers messages to all subscribers in one order.
//
// A Hub has the channels, patterns and shard channels of the whole server, whatever the namespace, as in Kvrocks. A
// message goes into the outbox of each subscriber at once; the flusher of package wire writes it to the sockets. A
// publisher never waits for a subscriber; a subscriber that does not read is disconnected at its output limit.
package pubsub
