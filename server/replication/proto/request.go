package proto

import (
	"errors"
	"math"
	"strconv"
	"strings"

	"github.com/basaltdb/basalt/server/resp"
)

// IDLen is the length of a replication id: characters 0-9 and A-Z.
const IDLen = 16

// Error is the text of an error reply, without the minus sign and "ERR ".
type Error string

func (e Error) Error() string { return string(e) }

// The errors of requests, with the texts of Kvrocks.
const (
	ErrIDLength      Error = "Wrong replication id length"
	ErrSequence      Error = "value is not an unsigned long long or out of range"
	ErrWrongID       Error = "wrong replication id of the last log"
	ErrOutOfRange    Error = "sequence out of range, please use fullsync"
	ErrPort          Error = "listening-port should be number or out of range"
	ErrAddress       Error = "ip-address should not be empty"
	ErrUnknownOption Error = "unknown option"
	ErrArguments     Error = "wrong number of arguments"
	ErrCheckpoint    Error = "can't create db checkpoint" // sent without "ERR "
)

// ErrRedis is the error of the requests by which Redis replicates.
const ErrRedis Error = "this server has no replicas of Redis: redis-cli --rdb and basalt export write an RDB file, " +
	"basalt migrate copies to a running Redis"

// The errors of REPLCONF with options of Redis, with the texts of Redis.
const (
	ErrNotInteger Error = "value is not an integer or out of range"
	ErrNotFlag    Error = "value is out of range, must be between 0 and 1"
	errFilter     Error = "Unsupported rdb-filter-only option: "
)

// AppendRequest appends a request: a RESP array of bulk strings.
func AppendRequest(dst []byte, words ...string) []byte {
	return resp.AppendCommand(dst, words...)
}

// AppendAuth appends AUTH with a password, and with a user if one is given.
func AppendAuth(dst []byte, user, password string) []byte {
	if user != "" {
		return AppendRequest(dst, "AUTH", user, password)
	}
	return AppendRequest(dst, "AUTH", password)
}

func AppendDBName(dst []byte) []byte { return AppendRequest(dst, "_db_name") }

// AppendFetchMeta appends the request for the names of the files of a checkpoint.
func AppendFetchMeta(dst []byte) []byte { return AppendRequest(dst, "_fetch_meta") }

// AppendFetchFiles appends the request for the contents of files of the checkpoint.
func AppendFetchFiles(dst []byte, names []string) []byte {
	return AppendRequest(dst, "_fetch_file", strings.Join(names, ","))
}

// AppendAck appends the acknowledgement of all writes up to a sequence number. In Kvrocks the words are case-sensitive.
func AppendAck(dst []byte, sequence uint64) []byte {
	return AppendRequest(dst, "replconf", "ack", strconv.FormatUint(sequence, 10))
}

// AppendSyncedAck appends the acknowledgement of all writes up to a sequence number, and of the writes on the disk. The
// word is that of Redis 7.2.
func AppendSyncedAck(dst []byte, sequence, synced uint64) []byte {
	return AppendRequest(dst, "replconf", "ack", strconv.FormatUint(sequence, 10), "fack", strconv.FormatUint(synced, 10))
}

// Conf is what a replica announces with REPLCONF. Zero values are left out.
type Conf struct {
	Port    int    // where the replica listens
	Address string // where the replica can be reached
	Ack     bool   // the replica answers "_getack"
	Sync    bool   // the replica answers "_getsync"

	// What a client of Redis announces.
	EOF         bool // it takes an RDB file whose length is not known
	RDBOnly     bool // it wants an RDB file and no stream
	NoKeys      bool // the file has no keys
	NoLibraries bool // the file has no libraries of functions
}

// WantsStream reports whether a client that calls SYNC wants the stream of writes after the file: a replica of Redis,
// which has named its port, or redis-cli --replica, which has no use for the file. Before 6.2 redis-cli --rdb does not
// announce rdb-only, and redis-cli --cluster backup announces nothing.
func (c *Conf) WantsStream() bool { return !c.RDBOnly && (c.Port != 0 || c.NoKeys && c.NoLibraries) }

// AppendConf appends REPLCONF with the port and the address. AppendCapa makes a separate request for capabilities,
// because Kvrocks rejects a whole request with an unknown option.
func AppendConf(dst []byte, c Conf) []byte {
	words := []string{"replconf", "listening-port", strconv.Itoa(c.Port)}
	if c.Address != "" {
		words = append(words, "ip-address", c.Address)
	}
	return AppendRequest(dst, words...)
}

// AppendCapa appends REPLCONF with the capability to answer "_getack" and, with sync, "_getsync".
func AppendCapa(dst []byte, sync bool) []byte {
	if sync {
		return AppendRequest(dst, "replconf", "capa", "ack", "capa", "sync")
	}
	return AppendRequest(dst, "replconf", "capa", "ack")
}

// ParseConf parses the arguments of REPLCONF, without its name, into c. It ignores capabilities other than ack, sync
// and eof. An ack before the stream is an unknown option.
func ParseConf(c *Conf, args [][]byte) error {
	if len(args) == 0 || len(args)%2 != 0 {
		return ErrArguments
	}
	next := *c
	for i := 0; i < len(args); i += 2 {
		value := string(args[i+1])
		switch strings.ToLower(string(args[i])) {
		case "listening-port":
			port, err := strconv.Atoi(value)
			if err != nil || port < 1 || port > 65535 {
				return ErrPort
			}
			next.Port = port
		case "ip-address":
			if value == "" {
				return ErrAddress
			}
			next.Address = value
		case "capa":
			next.Ack = next.Ack || strings.EqualFold(value, "ack")
			next.Sync = next.Sync || strings.EqualFold(value, "sync")
			next.EOF = next.EOF || strings.EqualFold(value, "eof")
		case "rdb-only":
			n, err := strconv.ParseInt(value, 10, 64)
			if err != nil {
				return ErrNotInteger
			}
			if n != 0 && n != 1 {
				return ErrNotFlag
			}
			next.RDBOnly = n == 1
		case "rdb-filter-only":
			next.NoKeys, next.NoLibraries = true, true
			for word := range strings.FieldsSeq(value) {
				if !strings.EqualFold(word, "functions") {
					return errFilter + Error(word)
				}
				next.NoLibraries = false
			}
		default:
			return ErrUnknownOption
		}
	}
	*c = next
	return nil
}

// PSync is a request for the batches from a sequence number on.
type PSync struct {
	ID   string // replication id of the replica's last write, "" = not given
	Next uint64
}

func AppendPSync(dst []byte, p PSync) []byte {
	next := strconv.FormatUint(p.Next, 10)
	if p.ID != "" {
		return AppendRequest(dst, "PSYNC", p.ID, next)
	}
	return AppendRequest(dst, "PSYNC", next)
}

// redisIDLen is the length of a replication id of Redis.
const redisIDLen = 40

// ParsePSync parses the arguments of PSYNC, without its name.
func ParsePSync(args [][]byte) (p PSync, err error) {
	if len(args) != 1 && len(args) != 2 {
		return p, ErrArguments
	}
	if len(args) == 2 && (string(args[0]) == "?" || len(args[0]) == redisIDLen) {
		return p, ErrRedis
	}
	if p.Next, err = strconv.ParseUint(string(args[len(args)-1]), 10, 64); err != nil {
		return PSync{}, ErrSequence
	}
	if len(args) == 2 {
		if p.ID = string(args[0]); len(p.ID) != IDLen {
			return PSync{}, ErrIDLength
		}
	}
	return p, nil
}

// Bounds of a replica's requests during the stream.
const (
	maxWords   = 16
	maxWordLen = 256
)

// ErrRequest: a replica has sent something other than a request during the stream.
var ErrRequest = errors.New("not a RESP array of short bulk strings")

// Ack is an acknowledgement: the replica has all writes up to Sequence, and on its disk all writes up to Synced; 0 =
// not given.
type Ack struct{ Sequence, Synced uint64 }

// ReadAck parses one request of a replica during the stream. ok is false for a request other than an acknowledgement,
// which a master ignores.
func ReadAck(buf []byte) (a Ack, ok bool, n int, err error) {
	count, n, err := readLength(buf, '*', maxWords)
	if n == 0 || err != nil {
		return a, false, 0, err
	}
	var words [5]string
	for i := range count {
		size, used, err := readLength(buf[n:], '$', maxWordLen)
		if used == 0 || err != nil {
			return a, false, 0, err
		}
		n += used
		if len(buf)-n < size+2 {
			return a, false, 0, nil
		}
		if string(buf[n+size:n+size+2]) != "\r\n" {
			return a, false, 0, ErrRequest
		}
		if i < len(words) {
			words[i] = string(buf[n : n+size])
		}
		n += size + 2
	}
	synced := count == 5 && strings.EqualFold(words[3], "fack")
	if count != 3 && !synced || !strings.EqualFold(words[0], "replconf") || !strings.EqualFold(words[1], "ack") {
		return a, false, n, nil
	}
	if a.Sequence, err = strconv.ParseUint(words[2], 10, 64); err == nil && synced {
		a.Synced, err = strconv.ParseUint(words[4], 10, 64)
	}
	if err != nil {
		return Ack{}, false, 0, ErrRequest
	}
	return a, true, n, nil
}

// readLength reads a line of a marker and a length of at most limit.
func readLength(buf []byte, marker byte, limit int) (length, n int, err error) {
	line, n, err := ReadLine(buf, maxLengthLine)
	switch {
	case errors.Is(err, ErrLineLength):
		return 0, 0, ErrRequest
	case n == 0 && len(buf) > 0 && buf[0] != marker:
		return 0, 0, ErrRequest
	case n == 0:
		return 0, 0, nil
	}
	length, ok := parseLength(line, marker)
	if !ok || length > limit {
		return 0, 0, ErrRequest
	}
	return length, n, nil
}

// parseLength parses a marker followed by a decimal number that an int can hold.
func parseLength(line []byte, marker byte) (length int, ok bool) {
	if len(line) < 2 || len(line) > maxLengthLine || line[0] != marker {
		return 0, false
	}
	for _, c := range line[1:] {
		if c < '0' || c > '9' || length > (math.MaxInt-9)/10 {
			return 0, false
		}
		length = length*10 + int(c-'0')
	}
	return length, true
}
