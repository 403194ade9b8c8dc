package redislink

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// State is the position of a database in the stream of a master.
type State struct {
	ID     string // the replication id of the master, 40 hexadecimal digits
	Offset int64  // bytes of the stream that were applied
	DB     int    // the database selected at that offset
}

// idLen is the length of a replication id.
const idLen = 40

// stateVersion begins the stored form of a state.
const stateVersion = "1"

// Append appends the stored form:
//
//	"1 " id " " offset " " database
func (s State) Append(dst []byte) []byte {
	dst = append(dst, stateVersion...)
	dst = append(append(dst, ' '), s.ID...)
	dst = strconv.AppendInt(append(dst, ' '), s.Offset, 10)
	return strconv.AppendInt(append(dst, ' '), int64(s.DB), 10)
}

var errState = errors.New("not a position in the stream of a Redis master")

// ParseState parses the stored form.
func ParseState(b []byte) (s State, err error) {
	words := strings.Split(string(b), " ")
	if len(words) != 4 || words[0] != stateVersion || !validID(words[1]) {
		return s, fmt.Errorf("%.100q: %w", b, errState)
	}
	s.ID = words[1]
	if s.Offset, err = strconv.ParseInt(words[2], 10, 64); err == nil {
		s.DB, err = parseDB(words[3])
	}
	if err != nil || s.Offset < 0 {
		return State{}, fmt.Errorf("%.100q: %w", b, errState)
	}
	return s, nil
}

func validID(id string) bool {
	for _, c := range []byte(id) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') && (c < 'A' || c > 'F') {
			return false
		}
	}
	return len(id) == idLen
}

// parseDB reads the number of a database.
func parseDB(text string) (int, error) {
	n, err := strconv.ParseUint(text, 10, 31)
	return int(n), err
}
