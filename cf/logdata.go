package cf

import (
	"bytes"
	"strconv"
)

// Log data are the blobs that Kvrocks puts into write batches for readers of the WAL (slot migration, kvrocks2redis,
// POLLUPDATES); no file holds them. A blob is text: the number of the type, then the arguments, separated by single
// blanks. Readers split a blob at blanks, so they misread an argument that contains a blank: a defect of the format.

// ListOp is the number by which the log data of a list, a bitmap or an EXPIRE names the operation.
type ListOp int

// The operations.
const (
	OpLSet ListOp = iota
	OpLInsert
	OpLTrim
	OpLPop
	OpRPop
	OpLRem
	OpLPush
	OpRPush
	OpExpire
	OpSetBit
	OpBitOp
	OpBitField
	OpLMove
)

// Ready-made blobs. They must not be changed.
var (
	LogDel         = []byte("0")   // DEL of several keys
	LogExpire      = []byte("0 8") // EXPIRE family and PERSIST
	LogString      = []byte("1")
	LogHash        = []byte("2")
	LogListPopL    = []byte("3 3")
	LogListPopR    = []byte("3 4")
	LogListPushL   = []byte("3 6")
	LogListPushR   = []byte("3 7")
	LogSet         = []byte("4")
	LogZSet        = []byte("5")
	LogSortedInt   = []byte("7")
	LogStream      = []byte("8")
	LogStreamSetID = []byte("8 XSETID")
	LogBloomCreate = []byte("9 createBloomChain")
	LogBloomInsert = []byte("9 insert")
	LogJSON        = []byte("10")
	LogHyperLogLog = []byte("11")
)

// AppendLogType appends the blob of RENAME, COPY and MOVEX: the bare number of the type.
func AppendLogType(dst []byte, t Type) []byte { return strconv.AppendUint(dst, uint64(t), 10) }

func appendLogOp(dst []byte, t Type, op ListOp) []byte {
	dst = AppendLogType(dst, t)
	dst = append(dst, ' ')
	return strconv.AppendInt(dst, int64(op), 10)
}

func appendLogInt(dst []byte, n int64) []byte { return strconv.AppendInt(append(dst, ' '), n, 10) }

func appendLogArg(dst, arg []byte) []byte { return append(append(dst, ' '), arg...) }

// AppendLogLSet appends the blob of LSET. The index is that of the command: a negative index counts from the end.
func AppendLogLSet(dst []byte, index int64) []byte {
	return appendLogInt(appendLogOp(dst, TypeList, OpLSet), index)
}

// AppendLogLInsert appends the blob of LINSERT.
func AppendLogLInsert(dst []byte, before bool, pivot, elem []byte) []byte {
	where := int64(0)
	if before {
		where = 1
	}
	dst = appendLogInt(appendLogOp(dst, TypeList, OpLInsert), where)
	return appendLogArg(appendLogArg(dst, pivot), elem)
}

// AppendLogLTrim appends the blob of LTRIM, with the indexes of the command.
func AppendLogLTrim(dst []byte, start, stop int64) []byte {
	return appendLogInt(appendLogInt(appendLogOp(dst, TypeList, OpLTrim), start), stop)
}

// AppendLogLRem appends the blob of LREM.
func AppendLogLRem(dst []byte, count int64, elem []byte) []byte {
	return appendLogArg(appendLogInt(appendLogOp(dst, TypeList, OpLRem), count), elem)
}

// AppendLogLMove appends the blob of LMOVE and RPOPLPUSH; source and destination are user keys.
func AppendLogLMove(dst, source, destination []byte, fromLeft, toLeft bool) []byte {
	dst = appendLogArg(appendLogOp(dst, TypeList, OpLMove), source)
	dst = appendLogArg(dst, destination)
	for _, left := range [...]bool{fromLeft, toLeft} {
		if left {
			dst = append(dst, " left"...)
		} else {
			dst = append(dst, " right"...)
		}
	}
	return dst
}

// AppendLogSetBit appends the blob of SETBIT.
func AppendLogSetBit(dst []byte, offset uint64) []byte {
	dst = append(appendLogOp(dst, TypeBitmap, OpSetBit), ' ')
	return strconv.AppendUint(dst, offset, 10)
}

// AppendLogBitOp appends the blob of BITOP; op is AND, OR, XOR or NOT, the sources are user keys.
func AppendLogBitOp(dst []byte, op string, sources [][]byte) []byte {
	dst = append(append(appendLogOp(dst, TypeBitmap, OpBitOp), ' '), op...)
	for _, s := range sources {
		dst = appendLogArg(dst, s)
	}
	return dst
}

// AppendLogBitField appends the blob of BITFIELD: its operations as text, such as SET u8 0 7.
func AppendLogBitField(dst []byte, args [][]byte) []byte {
	dst = appendLogOp(dst, TypeBitmap, OpBitField)
	for _, a := range args {
		dst = appendLogArg(dst, a)
	}
	return dst
}

// AppendLogCuckoo appends the blob of a write to a cuckoo filter; op is reserve, add or del.
func AppendLogCuckoo(dst []byte, op string, key []byte) []byte {
	dst = append(AppendLogType(dst, TypeCuckooFilter), ' ')
	return appendLogArg(append(dst, op...), key)
}

// logReplicationID begins the blob that carries the replication id.
const logReplicationID = "r "

// AppendLogReplicationID appends the blob that ends each batch with use-rsid-psync.
func AppendLogReplicationID(dst []byte, id string) []byte {
	return append(append(dst, logReplicationID...), id...)
}

// ParseLogData checks a blob and returns the replication id that it carries; nil = another blob. The id aliases b.
func ParseLogData(b []byte) (replicationID []byte, err error) {
	if id, ok := bytes.CutPrefix(b, []byte(logReplicationID)); ok {
		return id, nil
	}
	kind, _, _ := bytes.Cut(b, []byte(" "))
	if n, err := parseDecimal(kind); err != nil || n > 0x0f {
		return nil, corrupt("log data %q", b)
	}
	return nil, nil
}
