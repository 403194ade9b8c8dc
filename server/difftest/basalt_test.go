package difftest

import "testing"

func startBasalt(t testing.TB, settings ...string) target {
	if len(settings) > 0 {
		settings[0] = "--" + settings[0]
	}
	return startRedis(t, settings...)
}
