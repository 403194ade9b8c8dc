package acl

import "slices"

// Denied is the reason of a denial. Of several reasons the greatest is reported.
type Denied uint8

// The reasons.
const (
	Allowed Denied = iota
	DeniedCommand
	DeniedKey
	DeniedAuth        // failed authentication; only in the log
	DeniedCertificate // no enabled user has the name in the certificate of a client; only in the log
	DeniedChannel

	Reasons // how many there are
)

// String returns the name of the reason in ACL LOG.
func (d Denied) String() string {
	return [Reasons]string{"allowed", "command", "key", "auth", "tls-cert", "channel"}[d]
}

// Text returns the text of ACL DRYRUN; name is the command and object the key or channel.
func (d Denied) Text(user, name, object string) string {
	what := "run the '" + name + "' command"
	switch d {
	case DeniedKey:
		what = "access the '" + object + "' key"
	case DeniedChannel:
		what = "access the '" + object + "' channel"
	}
	return "User " + user + " has no permissions to " + what
}

// Reply returns the text of the NOPERM error for clients. It does not reveal the key or channel.
func (d Denied) Reply(user, name string) string {
	switch d {
	case DeniedKey:
		return "No permissions to access a key"
	case DeniedChannel:
		return "No permissions to access a channel"
	}
	return d.Text(user, name, "")
}

// Key says which argument is a key and how the command accesses its value. A command that only accesses the key itself,
// such as EXISTS, neither reads nor writes; any key pattern of the user may then match.
type Key struct {
	Arg         int
	Read, Write bool
}

// Channels says which arguments are channels: those in [First, Last). Pattern says that they are patterns (PSUBSCRIBE),
// which must be allowed literally. The zero value means no channels.
type Channels struct {
	First, Last int
	Pattern     bool
}

// Unrestricted reports whether the user may do everything, so that no check is needed.
func (u *User) Unrestricted() bool { return u.unrestricted }

// NeedsKeys reports whether Check needs the keys of commands.
func (u *User) NeedsKeys() bool { return u.needKeys }

// Check reports whether the user may run a command with these arguments; args[0] is the name. If not, at is the index
// of the denied argument: 0, or that of the key or channel. Keys and channels outside args are ignored.
func (u *User) Check(cmd ID, args [][]byte, keys []Key, channels Channels) (reason Denied, at int) {
	if u.unrestricted {
		return Allowed, 0
	}
	open := u.table.open.has(cmd)
	reason = DeniedCommand
	for _, s := range u.selectors {
		d, i := s.check(open, cmd, args, keys, channels)
		if d == Allowed {
			return Allowed, 0
		}
		if d > reason || d == reason && i > at {
			reason, at = d, i
		}
	}
	return reason, at
}

func (s *selector) check(open bool, cmd ID, args [][]byte, keys []Key, channels Channels) (Denied, int) {
	if !open && !s.allowed.has(cmd) && !s.allowsFirstArg(cmd, args) {
		return DeniedCommand, 0
	}
	if !s.allKeys {
		for _, k := range keys {
			if k.Arg < len(args) && !s.allowsKey(args[k.Arg], k.Read, k.Write) {
				return DeniedKey, k.Arg
			}
		}
	}
	if !s.allChannels {
		for i := channels.First; i < channels.Last && i < len(args); i++ {
			if !s.allowsChannel(args[i], channels.Pattern) {
				return DeniedChannel, i
			}
		}
	}
	return Allowed, 0
}

func (s *selector) allowsFirstArg(cmd ID, args [][]byte) bool {
	if s.firstArgs == nil || len(args) < 2 {
		return false
	}
	return slices.ContainsFunc(s.firstArgs[cmd], func(arg string) bool { return equalFold(args[1], arg) })
}

// equalFold compares ignoring the case of ASCII letters; word must be lower case.
func equalFold(b []byte, word string) bool {
	if len(b) != len(word) {
		return false
	}
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != word[i] {
			return false
		}
	}
	return true
}

func (s *selector) allowsKey(key []byte, read, write bool) bool {
	if s.allKeys {
		return true
	}
	for i := range s.keys {
		if p := &s.keys[i]; (p.read || !read) && (p.write || !write) && p.match.Match(key) {
			return true
		}
	}
	return false
}

func (s *selector) allowsChannel(channel []byte, isPattern bool) bool {
	if s.allChannels {
		return true
	}
	for i := range s.channels {
		p := &s.channels[i]
		if isPattern && string(channel) == p.pattern || !isPattern && p.match.Match(channel) {
			return true
		}
	}
	return false
}

// MayReadAllKeys reports whether a selector that allows the command with its keys also allows reading every key, as BY
// and GET of SORT require.
func (u *User) MayReadAllKeys(cmd ID, args [][]byte, keys []Key) bool {
	for _, s := range u.selectors {
		if d, _ := s.check(u.table.open.has(cmd), cmd, args, keys, Channels{}); d == Allowed && s.readsAllKeys() {
			return true
		}
	}
	return false
}

func (s *selector) readsAllKeys() bool {
	if s.allKeys {
		return true
	}
	for i := range s.keys {
		if s.keys[i].read && s.keys[i].pattern == "*" {
			return true
		}
	}
	return false
}

// MayAccessChannel reports whether a selector of the user allows a channel or, if isPattern, a channel pattern. After a
// change of its user, a subscriber must be disconnected if one of its channels is not allowed.
func (u *User) MayAccessChannel(channel []byte, isPattern bool) bool {
	return slices.ContainsFunc(u.selectors, func(s *selector) bool { return s.allowsChannel(channel, isPattern) })
}

// LosesChannels reports whether the change from u to next may remove access to a channel: otherwise subscribers need
// not be checked.
func (u *User) LosesChannels(next *User) bool {
	if slices.ContainsFunc(next.selectors, func(s *selector) bool { return s.allChannels }) {
		return false
	}
	return slices.ContainsFunc(u.selectors, func(s *selector) bool {
		return s.allChannels || slices.ContainsFunc(s.channels, func(p channelPattern) bool {
			return !next.MayAccessChannel([]byte(p.pattern), true)
		})
	})
}
