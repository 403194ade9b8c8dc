package cf

import "encoding/binary"

// DefaultNamespace is the namespace of connections that did not authenticate with a namespace token.
const DefaultNamespace = "__namespace"

// NumSlots is the number of cluster slots.
const NumSlots = 16384

// AppendNSPrefix appends the common prefix of all metadata keys of a namespace:
//
//	u8 len(ns) · ns
//
// A namespace is at most 255 bytes long.
func AppendNSPrefix(dst []byte, ns string) []byte {
	dst = append(dst, byte(len(ns)))
	return append(dst, ns...)
}

// AppendNSKey appends the metadata key of a user key:
//
//	u8 len(ns) · ns · [u16 slot] · user key
//
// The slot is present when the database runs in cluster mode.
func AppendNSKey(dst []byte, ns string, userKey []byte, slots bool) []byte {
	dst = AppendNSPrefix(dst, ns)
	if slots {
		dst = binary.BigEndian.AppendUint16(dst, Slot(userKey))
	}
	return append(dst, userKey...)
}

// SplitNSKey splits a metadata key. The results alias nsKey.
func SplitNSKey(nsKey []byte, slots bool) (ns, userKey []byte, err error) {
	if len(nsKey) == 0 {
		return nil, nil, corrupt("empty metadata key")
	}
	n := 1 + int(nsKey[0])
	user := n
	if slots {
		user += 2
	}
	if len(nsKey) < user {
		return nil, nil, corrupt("metadata key of %d bytes is shorter than its namespace", len(nsKey))
	}
	return nsKey[1:n], nsKey[user:], nil
}

// AppendSubkeyPrefix appends the common prefix of all subkeys of one version of a collection, from its metadata key:
//
//	u8 len(ns) · ns · [u16 slot] · u32 len(user key) · user key · u64 version
func AppendSubkeyPrefix(dst, nsKey []byte, slots bool, version uint64) []byte {
	n := 1 + int(nsKey[0])
	if slots {
		n += 2
	}
	dst = append(dst, nsKey[:n]...)
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(nsKey)-n))
	dst = append(dst, nsKey[n:]...)
	return binary.BigEndian.AppendUint64(dst, version)
}

// Subkey is a decoded key of the default, zset_score or stream family. The slices alias the key.
type Subkey struct {
	Namespace []byte
	UserKey   []byte
	Version   uint64
	Sub       []byte // what follows the version: field, member, index, score·member, ...
}

// ParseSubkey decodes the key of a subkey.
func ParseSubkey(key []byte, slots bool) (Subkey, error) {
	var s Subkey
	if len(key) == 0 {
		return s, corrupt("empty internal key")
	}
	n := 1 + int(key[0])
	user := n
	if slots {
		user += 2
	}
	if len(key) < user+4 {
		return s, corrupt("internal key of %d bytes is shorter than its namespace", len(key))
	}
	keyLen := uint64(binary.BigEndian.Uint32(key[user:]))
	rest := key[user+4:]
	if uint64(len(rest)) < keyLen+8 {
		return s, corrupt("internal key of %d bytes is shorter than its user key of %d", len(key), keyLen)
	}
	s.Namespace = key[1:n]
	s.UserKey = rest[:keyLen]
	s.Version = binary.BigEndian.Uint64(rest[keyLen:])
	s.Sub = rest[keyLen+8:]
	return s, nil
}

// AppendNSKeyOf appends the metadata key of the collection that a subkey belongs to. The slot of the key is kept.
func AppendNSKeyOf(dst, key []byte, slots bool) ([]byte, error) {
	s, err := ParseSubkey(key, slots)
	if err != nil {
		return dst, err
	}
	n := 1 + len(s.Namespace)
	if slots {
		n += 2
	}
	dst = append(dst, key[:n]...)
	return append(dst, s.UserKey...), nil
}

// AppendSuccessor appends the smallest byte string that sorts after every string with the given prefix, and reports
// whether one exists: a prefix of only 0xff bytes has no successor.
func AppendSuccessor(dst, prefix []byte) ([]byte, bool) {
	for n := len(prefix); n > 0; n-- {
		if prefix[n-1] != 0xff {
			dst = append(dst, prefix[:n]...)
			dst[len(dst)-1]++
			return dst, true
		}
	}
	return dst, false
}
