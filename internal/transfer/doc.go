// Package transfer moves data into and out of servers and data directories: files of Redis and Valkey (RDB and
// append-only files), streams of commands, and JSON lines. What it reads may come from anywhere: nothing takes a length
// or a count for granted, and no value needs more memory than a part of it.
package transfer
