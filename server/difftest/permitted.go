package difftest

import "regexp"

// permitted are the differences that are meant. The expressions see the whole
// command, its words with single blanks, and the raw replies.
var permitted = []struct {
	command, redis, basalt string
	reason                 string
}{}

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
