package command

import (
	"slices"
	"strings"

	"github.com/basaltdb/basalt/engine"
)

// Tracking is how a connection wants to hear of changes of keys: CLIENT TRACKING.
type Tracking struct {
	Broadcast bool     // track all keys with a prefix, not the keys that the client has read
	Prefixes  []string // with Broadcast at least one; an empty prefix = all keys
	OptIn     bool     // track only keys read after CLIENT CACHING YES
	OptOut    bool     // do not track keys read after CLIENT CACHING NO
	NoLoop    bool     // not of its own changes
	Redirect  int64    // ID of the connection that gets the messages, 0 = this connection
}

// InvalidateChannel is the channel under which connections that speak RESP2 get the messages of tracking.
const InvalidateChannel = "__redis__:invalidate"

var (
	errTwoPrefixes = engine.NewError("ERR", "PREFIX option requires BCAST mode to be enabled")
	errTrackBcast  = engine.NewError("ERR", "OPTIN and OPTOUT are not compatible with BCAST")
	errTrackOpts   = engine.NewError("ERR", "You can't specify both OPTIN mode and OPTOUT mode")
	errTrackMode   = engine.NewError("ERR",
		"You can't switch BCAST mode on/off before disabling tracking for this client, and then re-enabling it with a "+
			"different mode.")
	errTrackOptSw = engine.NewError("ERR",
		"You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then re-enabling it with a "+
			"different mode.")
	errNoRedirect  = engine.NewError("ERR", "The client ID you want redirect to does not exist")
	errTwoRedirect = engine.NewError("ERR", "A client can only redirect to a single other client")
	errCachingMode = engine.NewError("ERR",
		"CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled")
	errCachingYes = engine.NewError("ERR", "CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.")
	errCachingNo  = engine.NewError("ERR", "CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.")
	errPauseMode  = engine.NewError("ERR", "CLIENT PAUSE mode must be WRITE or ALL")
)

func clientTracking(c *Ctx) error {
	how, err := trackingOptions(c)
	on := EqualFold(c.Args[2], "ON")
	switch {
	case err != nil:
		return err
	case !on && !EqualFold(c.Args[2], "OFF"):
		return ErrSyntax
	case !on:
		c.Sess.Control.Untrack()
		return replyOK(c, nil)
	}
	old, _ := c.Sess.Control.Tracked()
	switch {
	case !how.Broadcast && len(how.Prefixes) > 0:
		return errTwoPrefixes
	case old != nil && old.Broadcast != how.Broadcast:
		return errTrackMode
	case how.Broadcast && (how.OptIn || how.OptOut):
		return errTrackBcast
	case how.OptIn && how.OptOut:
		return errTrackOpts
	case old != nil && (how.OptIn && old.OptOut || how.OptOut && old.OptIn):
		return errTrackOptSw
	}
	if how.Broadcast {
		var have []string
		if old != nil {
			have = old.Prefixes
		}
		if how.Prefixes, err = joinPrefixes(have, how.Prefixes); err != nil {
			return err
		}
	}
	c.Sess.Control.Track(how)
	return replyOK(c, nil)
}

// trackingOptions parses what follows ON or OFF.
func trackingOptions(c *Ctx) (how Tracking, err error) {
	o := options{args: c.Args[3:]}
	for o.more() {
		switch {
		case o.has("REDIRECT", 1):
			o.check(how.Redirect == 0, errTwoRedirect)
			id, ok := ParseInt(o.next())
			o.check(ok, ErrNotInteger)
			// Redirecting to a client that does not exist is most likely a mistake.
			o.check(slices.ContainsFunc(c.Srv.Clients.List(), func(info ClientInfo) bool {
				return info.ID == id && (c.Sess.Admin || info.Namespace == c.Sess.Namespace)
			}), errNoRedirect)
			how.Redirect = id
		case o.flag("BCAST", &how.Broadcast):
		case o.flag("OPTIN", &how.OptIn):
		case o.flag("OPTOUT", &how.OptOut):
		case o.flag("NOLOOP", &how.NoLoop):
		case o.has("PREFIX", 1):
			how.Prefixes = append(how.Prefixes, string(o.next()))
		default:
			o.err = ErrSyntax
		}
	}
	return how, o.err
}

// joinPrefixes adds prefixes to the prefixes of a client; without prefixes it adds the empty one. Prefixes must not
// overlap; as in Redis, an empty prefix that was added this way is not checked.
func joinPrefixes(have, more []string) ([]string, error) {
	overlap := func(a, b string) bool { return strings.HasPrefix(a, b) || strings.HasPrefix(b, a) }
	for i, p := range more {
		for _, h := range have {
			if overlap(p, h) {
				return nil, errorf("Prefix '%s' overlaps with an existing prefix '%s'. Prefixes for a single client must not "+
					"overlap.", p, h)
			}
		}
		for _, o := range more[i+1:] {
			if overlap(p, o) {
				return nil, errorf("Prefix '%s' overlaps with another provided prefix '%s'. Prefixes for a single client must not "+
					"overlap.", p, o)
			}
		}
	}
	if len(more) == 0 {
		more = []string{""}
	}
	all := slices.Concat(have, more)
	slices.Sort(all)
	return slices.Compact(all), nil
}

func clientCaching(c *Ctx) error {
	how, _ := c.Sess.Control.Tracked()
	if how == nil {
		return errCachingMode
	}
	switch {
	case EqualFold(c.Args[2], "YES"):
		if !how.OptIn {
			return errCachingYes
		}
		c.Sess.Control.SetCaching(true)
	case EqualFold(c.Args[2], "NO"):
		if !how.OptOut {
			return errCachingNo
		}
		c.Sess.Control.SetCaching(false)
	default:
		return ErrSyntax
	}
	return replyOK(c, nil)
}

// clientGetRedir replies -1 when tracking is off, 0 when the messages are not redirected.
func clientGetRedir(c *Ctx) error {
	if how, _ := c.Sess.Control.Tracked(); how != nil {
		c.Out.Int(how.Redirect)
	} else {
		c.Out.Int(-1)
	}
	return nil
}

func clientTrackingInfo(c *Ctx) error {
	how, broken := c.Sess.Control.Tracked()
	flags, redirect, prefixes := []string{"off"}, int64(-1), []string(nil)
	if how != nil {
		flags, redirect = []string{"on"}, how.Redirect
		caching := c.Sess.Control.Caching()
		for _, f := range []struct {
			set  bool
			name string
		}{{how.Broadcast, "bcast"}, {how.OptIn, "optin"}, {how.OptIn && caching > 0, "caching-yes"}, {how.OptOut, "optout"},
			{how.OptOut && caching < 0, "caching-no"}, {how.NoLoop, "noloop"}, {broken, "broken_redirect"}} {
			if f.set {
				flags = append(flags, f.name)
			}
		}
		prefixes = how.Prefixes
	}
	c.Out.Map(3)
	c.Out.BulkString("flags")
	writeBulkSet(c.Out, flags)
	intField(c.Out, "redirect", redirect)
	c.Out.BulkString("prefixes")
	writeBulks(c.Out, prefixes)
	return nil
}

// clientPause reads its time in milliseconds.
func clientPause(c *Ctx) error {
	all := true
	switch {
	case len(c.Args) > 4:
		return wrongSubcommand(c)
	case len(c.Args) == 4 && EqualFold(c.Args[3], "WRITE"):
		all = false
	case len(c.Args) == 4 && !EqualFold(c.Args[3], "ALL"):
		return errPauseMode
	}
	d, err := parseMillis(c.Args[2])
	if err != nil {
		return err
	}
	return replyOK(c, c.Sess.Control.Pause(d, all))
}

func clientUnpause(c *Ctx) error {
	c.Srv.Clients.Unpause()
	return replyOK(c, nil)
}
