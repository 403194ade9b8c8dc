package difftest

import "regexp"

// permitted are the differences that are meant. The expressions see the whole
// command, its words with single blanks, and the raw replies.
var permitted = []struct {
	command, redis, basalt string
	reason                 string
}{
	{
		`COMMAND GETKEYS(ANDFLAGS)? \S+`, `wrong number of arguments for 'command\|getkeys`,
		`-ERR (The command has no key|Invalid number of) arguments`,
		"Redis 7.2 takes the name of a command alone; 7.0 wants an argument more",
	},
	{
		`Z(REV)?RANK \S+ \S+ \S+`, `^-ERR wrong number of arguments for 'z(rev)?rank'`, `^-ERR syntax error`,
		"Redis 7.2 has the option WITHSCORE, 7.0 no fourth word",
	},
	{
		`EVAL .*`, `^-ERR The user executing the script can't run this command or subcommand`,
		`^-ERR ACL failure in script: User \S+ has no permissions to run the '\S+' command`,
		"Redis 7.2 says what the ACL denies to a script as it says it to a client",
	},
	{
		`EVAL .*`, `^-ERR The user executing the script can't access at least one of the keys`,
		`^-ERR ACL failure in script: No permissions to access a key`,
		"the same",
	},
	{
		`EVAL .*`, `^-ERR The user executing the script can't publish to the channel`,
		`^-ERR ACL failure in script: No permissions to access a channel`,
		"the same",
	},
	{
		`XLEN \S* .+`, `^-ERR wrong number of arguments for 'xlen'`, `.`,
		"XLEN key id [+|-] is Kvrocks's",
	},
	{
		`XREAD .*STREAMS \S+ \+`, `^-ERR Invalid stream ID`, `^[*_%]`,
		"the id + is Redis 7.4's",
	},
	{
		`(READONLY|READWRITE|ASKING)`, `^-ERR This instance has cluster support disabled`, `^\+OK`,
		"without a cluster they are answered as by Kvrocks",
	},
	{
		`LASTSAVE \S+`, `^-ERR wrong number of arguments for 'lastsave'`, `^-ERR syntax error`,
		"LASTSAVE ISO8601 is Kvrocks's",
	},
	{
		`COMMAND GETKEYS(ANDFLAGS)? PFMERGE \S+`, `^-ERR Invalid arguments`, `^\*1\r\n`,
		"the destination of PFMERGE is a key, alone too",
	},
	{
		`COMMAND GETKEYS(ANDFLAGS)? XREAD(GROUP)? .*`, `^\*`, `^-ERR Invalid arguments`,
		"the arguments are malformed: the command itself fails, too",
	},
	{
		`COMMAND GETKEYS(ANDFLAGS)? (HSETNX|XLEN) .*`, `^-ERR Invalid number of arguments`, `^\*1\r\n`,
		"HSETNX of several pairs and XLEN key id are Kvrocks's",
	},
	{
		`LPOS .* RANK -9223372036854775808.*`, `^(:|\$-1|_|\*)`, `^-ERR value is out of range, value must between`,
		"Redis 7.2 refuses the rank that cannot be negated",
	},
	{
		`EVAL .*redis\.call\('echo',-0\.0\).*`, `^\$2\r\n-0\r\n`, `^\$1\r\n0\r\n`,
		"Redis 7.2 hands whole numbers to redis.call as such, -0 too",
	},
	{
		`EVAL .*redis\.set_repl\(\).*`, `requires two arguments`, `requires one argument`,
		"the text of Redis 7.2",
	},
}

type permittedRule struct{ command, redis, basalt *regexp.Regexp }

var permittedRules = func() []permittedRule {
	rules := make([]permittedRule, len(permitted))
	for i, p := range permitted {
		rules[i] = permittedRule{
			regexp.MustCompile(`(?is)^(?:` + p.command + `)$`),
			regexp.MustCompile(`(?s)` + p.redis),
			regexp.MustCompile(`(?s)` + p.basalt),
		}
	}
	return rules
}()

func permittedDifference(c command, want, got reply) bool {
	text := c.String()
	for _, r := range permittedRules {
		if r.command.MatchString(text) && r.redis.Match(want.raw) && r.basalt.Match(got.raw) {
			return true
		}
	}
	return false
}
