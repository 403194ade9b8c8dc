package proto

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"

	"github.com/basaltdb/basalt/server/resp"
)

// A frame of the stream is one bulk string: "$<length>\r\n", the payload, "\r\n". The payload of an update is a write
// batch of RocksDB: u64 sequence number of its first record, u32 number of records, both little-endian, records.

// batchHeader is the length of a batch without records.
const batchHeader = 12

// The payloads other than batches.
const (
	Ping   = "ping"    // the master is idle
	GetAck = "_getack" // asks the replica to acknowledge at once; only with the capability
	// GetSync asks the replica to write its log to the disk and to acknowledge that; only with the capability.
	GetSync = "_getsync"
	// timePrefix is followed by milliseconds since the epoch: all writes that the master had begun by then are earlier
	// in the stream. Only with the capability.
	timePrefix = "_time "
)

// Kind is the kind of a frame.
type Kind uint8

// The kinds of frames.
const (
	KindBatch Kind = iota
	KindPing
	KindGetAck
	KindGetSync
	KindTime
)

// Frame is a frame of the stream. Payload points into the buffer that it was read from.
type Frame struct {
	Kind    Kind
	Payload []byte
}

// Sequence returns the sequence number of the first record of a batch.
func (f *Frame) Sequence() uint64 { return binary.LittleEndian.Uint64(f.Payload) }

// Count returns the number of sequence numbers of a batch.
func (f *Frame) Count() uint32 { return binary.LittleEndian.Uint32(f.Payload[8:]) }

// Time returns the master's time in a frame of kind Time, in milliseconds since the epoch.
func (f *Frame) Time() int64 {
	ms, _ := strconv.ParseInt(string(f.Payload[len(timePrefix):]), 10, 64)
	return ms
}

// AppendTime appends a frame with the master's time.
func AppendTime(dst []byte, ms int64) []byte {
	return AppendFrame(dst, strconv.AppendInt([]byte(timePrefix), ms, 10))
}

// ErrFrame: the stream contains something other than a frame. The link must be closed.
var ErrFrame = errors.New("not a frame of the replication stream")

// ErrFrameLength: a frame exceeds its limit.
var ErrFrameLength = errors.New("a frame of the replication stream is too long")

// EndError is the line with which a master ends the stream, and gives the reason. The line is not a frame, so a Kvrocks
// closes the link for it, too.
type EndError string

func (e EndError) Error() string { return "the master has ended the stream: " + string(e) }
func (EndError) Unwrap() error   { return ErrFrame }

// AppendEnd appends the line that ends the stream.
func AppendEnd(dst []byte, why string) []byte { return AppendError(dst, Error(why)) }

// AppendFrame appends a frame: a bulk string.
func AppendFrame[T ~string | ~[]byte](dst []byte, payload T) []byte {
	return resp.AppendBulk(dst, payload)
}

// AppendFrameHead appends the line before a payload. The payload is followed by CR LF.
func AppendFrameHead(dst []byte, size int) []byte {
	return resp.AppendHead(dst, '$', size)
}

// ReadFrame parses one frame with a payload of at most limit bytes. For an incomplete frame n is 0, and need is the min
// number of bytes of the frame, so that the reader can make room. The end of the stream is an EndError.
func ReadFrame(buf []byte, limit int) (f Frame, n, need int, err error) {
	if len(buf) > 0 && buf[0] == '-' {
		line, head, err := ReadLine(buf, MaxLine)
		if err == nil && head > 0 {
			err = EndError(line[1:])
		}
		return f, 0, len(buf) + 1, err
	}
	line, head, err := ReadLine(buf, maxLengthLine)
	switch {
	case err != nil, head == 0 && len(buf) > 0 && buf[0] != '$':
		return f, 0, 0, fmt.Errorf("%w: %.32q", ErrFrame, buf)
	case head == 0:
		return f, 0, len(buf) + 1, nil
	}
	size, ok := parseLength(line, '$')
	if !ok {
		return f, 0, 0, fmt.Errorf("%w: %.32q", ErrFrame, line)
	}
	if size > limit {
		return f, 0, 0, fmt.Errorf("%w: %d bytes, at most %d", ErrFrameLength, size, limit)
	}
	n = head + size + 2
	if len(buf) < n {
		return f, 0, n, nil
	}
	payload := buf[head : head+size]
	if string(buf[head+size:n]) != "\r\n" {
		return f, 0, 0, fmt.Errorf("%w: no CR LF after %d bytes", ErrFrame, size)
	}
	switch {
	case string(payload) == Ping:
		f.Kind = KindPing
	case string(payload) == GetAck:
		f.Kind = KindGetAck
	case string(payload) == GetSync:
		f.Kind = KindGetSync
	case bytes.HasPrefix(payload, []byte(timePrefix)): // no batch has so large a sequence number
		if !digits(string(payload[len(timePrefix):])) {
			return f, 0, 0, fmt.Errorf("%w: %.32q", ErrFrame, payload)
		}
		f.Kind = KindTime
	case size < batchHeader:
		return f, 0, 0, fmt.Errorf("%w: %.32q", ErrFrame, payload)
	}
	f.Payload = payload
	return f, n, 0, nil
}
