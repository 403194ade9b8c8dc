package command

// docChange is a change of a command in Redis, for COMMAND DOCS: the version that came with it, and what it was.
type docChange struct{ version, change string }

// replacements tell what is to be used in place of a deprecated command: see deprecated.
var replacements = map[string]string{
	"brpoplpush":           "`BLMOVE` from the `RIGHT` to the `LEFT`",
	"georadius":            "`GEOSEARCH` or `GEOSEARCHSTORE`, `BYRADIUS`",
	"georadius_ro":         "`GEOSEARCH`, `BYRADIUS`",
	"georadiusbymember":    "`GEOSEARCH` or `GEOSEARCHSTORE`, `BYRADIUS` and `FROMMEMBER`",
	"georadiusbymember_ro": "`GEOSEARCH`, `BYRADIUS` and `FROMMEMBER`",
	"getset":               "`SET`, `GET`",
	"hmset":                "`HSET`, which takes several fields",
	"psetex":               "`SET`, `PX`",
	"quit":                 "closing the connection",
	"rpoplpush":            "`LMOVE` from the `RIGHT` to the `LEFT`",
	"setex":                "`SET`, `EX`",
	"setnx":                "`SET`, `NX`",
	"slaveof":              "`REPLICAOF`",
	"substr":               "`GETRANGE`",
	"zrangebylex":          "`ZRANGE`, `BYLEX`",
	"zrangebyscore":        "`ZRANGE`, `BYSCORE`",
	"zrevrange":            "`ZRANGE`, `REV`",
	"zrevrangebylex":       "`ZRANGE`, `REV` and `BYLEX`",
	"zrevrangebyscore":     "`ZRANGE`, `REV` and `BYSCORE`",
}

// systemCommands are those that clients have no use for.
var systemCommands = map[string]bool{"debug": true, "pfdebug": true, "pfselftest": true, "restore-asking": true}

// Changes that several commands share.
var (
	doubleTimeout  = []docChange{{"6.0.0", "The timeout may have a fraction."}}
	expireOptions  = []docChange{{"7.0.0", "`NX`, `XX`, `GT` and `LT`."}}
	severalMembers = []docChange{{"2.4.0", "Several members in one call."}}
	severalFields  = []docChange{{"2.4.0", "Several fields in one call."}}
	severalPushed  = []docChange{{"2.4.0", "Several elements in one call."}}
	severalPushedX = []docChange{{"4.0.0", "Several elements in one call."}}
	popCount       = []docChange{{"6.2.0", "A count."}}
	byteOrBit      = []docChange{{"7.0.0", "`BYTE` and `BIT`."}}
	flushModes     = []docChange{{"4.0.0", "`ASYNC`."}, {"6.2.0", "`SYNC`."}}
	upperUnits     = []docChange{{"7.0.0", "Units in capital letters."}}
	missingTTL     = []docChange{{"2.8.0", "-2 for a key that does not exist."}}
	openRanges     = []docChange{{"6.2.0", "Ranges without their bounds."}}
	withScore      = []docChange{{"7.2.0", "`WITHSCORE`."}}
	restoreChanges = []docChange{{"3.0.0", "`REPLACE`."}, {"5.0.0", "`ABSTTL`."}, {"5.0.0", "`IDLETIME` and `FREQ`."}}
)

// histories are the changes of commands since the version that they came with.
var histories = map[string][]docChange{
	"acl|getuser": {{"6.2.0", "Patterns of channels."},
		{"7.0.0", "Selectors; patterns of keys and channels are rules, no longer lists."}},
	"acl|log":     {{"7.2.0", "The number of an entry, and the times when it was made and last changed."}},
	"acl|setuser": {{"6.2.0", "Patterns of channels."}, {"7.0.0", "Selectors, and rights to read or write keys."}},
	"auth":        {{"6.0.0", "The name of a user."}},
	"bgsave":      {{"3.2.2", "`SCHEDULE`."}},
	"bitcount":    byteOrBit,
	"bitop":       {{"8.2.0", "`DIFF`, `DIFF1`, `ANDOR` and `ONE`."}},
	"bitpos":      byteOrBit,
	"blpop":       doubleTimeout,
	"brpop":       doubleTimeout,
	"brpoplpush":  doubleTimeout,
	"bzpopmax":    doubleTimeout,
	"bzpopmin":    doubleTimeout,
	"client|kill": {{"2.8.12", "Filters."}, {"2.8.12", "`ID`."}, {"3.2.0", "`TYPE` may be master."},
		{"5.0.0", "`TYPE` may be replica, the new name of slave, which still does."}, {"6.2.0", "`LADDR`."}},
	"client|list": {{"2.8.12", "The field id."}, {"5.0.0", "`TYPE`."}, {"6.0.0", "The field user."},
		{"6.2.0", "The fields argv-mem, tot-mem, laddr and redir; `ID`."}, {"7.0.0",
			"The fields resp, multi-mem, rbs and rbp."}, {"7.0.3", "The field ssub."}},
	"client|pause":      {{"6.2.0", "The mode, with `WRITE`."}},
	"command|info":      {{"7.0.0", "Without an argument it tells of all commands."}},
	"config|get":        {{"7.0.0", "Several patterns in one call."}},
	"config|set":        {{"7.0.0", "Several settings in one call."}},
	"exists":            {{"3.0.3", "Several keys in one call."}},
	"expire":            expireOptions,
	"expireat":          expireOptions,
	"flushall":          flushModes,
	"flushdb":           flushModes,
	"geoadd":            {{"6.2.0", "`CH`, `NX` and `XX`."}},
	"georadius":         {{"6.2.0", "`ANY` after `COUNT`."}, upperUnits[0]},
	"georadius_ro":      {{"6.2.0", "`ANY` after `COUNT`."}},
	"georadiusbymember": upperUnits,
	"geosearch":         upperUnits,
	"geosearchstore":    upperUnits,
	"hdel":              severalFields,
	"hello":             {{"6.2.0", "Without an argument it tells of the connection."}},
	"hset":              {{"4.0.0", "Several fields in one call."}},
	"info":              {{"7.0.0", "Several sections in one call."}},
	"lpop":              popCount,
	"lpush":             severalPushed,
	"lpushx":            severalPushedX,
	"migrate": {{"3.0.0", "`COPY` and `REPLACE`."}, {"3.0.6", "`KEYS`."}, {"4.0.7", "`AUTH`."},
		{"6.0.0", "`AUTH2`."}},
	"pexpire":        expireOptions,
	"pexpireat":      expireOptions,
	"pttl":           missingTTL,
	"renamenx":       {{"3.2.0", "Both keys may be the same."}},
	"restore":        restoreChanges,
	"restore-asking": restoreChanges,
	"rpop":           popCount,
	"rpush":          severalPushed,
	"rpushx":         severalPushedX,
	"sadd":           severalMembers,
	"scan":           {{"6.0.0", "`TYPE`."}},
	"script|flush":   {{"6.2.0", "`ASYNC` and `SYNC`."}},
	"set": {{"2.6.12", "`EX`, `PX`, `NX` and `XX`."}, {"6.0.0", "`KEEPTTL`."}, {"6.2.0", "`GET`, `EXAT` and `PXAT`."},
		{"7.0.0", "`NX` and `GET` in one call."},
		{"8.4.0", "`IFEQ`, `IFNE`, `IFDEQ` and `IFDNE`."}},
	"shutdown":    {{"7.0.0", "`NOW`, `FORCE` and `ABORT`."}},
	"slowlog|get": {{"4.0.0", "The address and the name of the client."}},
	"spop":        {{"3.2.0", "A count."}},
	"srandmember": {{"2.6.0", "A count."}},
	"srem":        severalMembers,
	"ttl":         missingTTL,
	"xadd": {{"6.2.0", "`NOMKSTREAM`, `MINID` and `LIMIT`."}, {"7.0.0",
		"An id of which only the time is given: `<ms>-*`."},
		{"8.2.0", "`KEEPREF`, `DELREF` and `ACKED`."}},
	"xautoclaim":      {{"7.0.0", "The ids of pending entries that no longer exist."}},
	"xgroup|create":   {{"7.0.0", "`ENTRIESREAD`."}},
	"xgroup|setid":    {{"7.0.0", "`ENTRIESREAD`."}},
	"xinfo|consumers": {{"7.2.0", "The field inactive."}},
	"xinfo|groups":    {{"7.0.0", "The fields entries-read and lag."}},
	"xinfo|stream": {{"6.0.0", "`FULL`."},
		{"7.0.0", "The fields max-deleted-entry-id, entries-added, recorded-first-entry-id, entries-read and lag."},
		{"7.2.0", "The field active-time; seen-time means something else."}},
	"xpending":  {{"6.2.0", "`IDLE`; ranges without their bounds."}},
	"xrange":    openRanges,
	"xread":     {{"7.4.0", "The id `+`."}},
	"xrevrange": openRanges,
	"xsetid":    {{"7.0.0", "`ENTRIESADDED` and `MAXDELETEDID`."}},
	"xtrim":     {{"6.2.0", "`MINID` and `LIMIT`."}, {"8.2.0", "`KEEPREF`, `DELREF` and `ACKED`."}},
	"zadd": {{"2.4.0", "Several members in one call."}, {"3.0.2", "`XX`, `NX`, `CH` and `INCR`."},
		{"6.2.0", "`GT` and `LT`."}},
	"zrange":           {{"6.2.0", "`REV`, `BYSCORE`, `BYLEX` and `LIMIT`."}},
	"zrangebyscore":    {{"2.0.0", "`WITHSCORES`."}},
	"zrank":            withScore,
	"zrem":             severalMembers,
	"zrevrangebyscore": {{"2.1.6", "Ranges without their bounds."}},
	"zrevrank":         withScore,
}
