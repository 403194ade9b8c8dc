package acl

import (
	"maps"
	"slices"
)

// SamePermissions reports whether two users may do the same.
func SamePermissions(u, v *User) bool {
	return u.namespace == v.namespace && slices.EqualFunc(u.selectors, v.selectors, func(s, o *selector) bool {
		return slices.Equal(s.keyRules(), o.keyRules()) && slices.Equal(s.channelRules(), o.channelRules()) &&
			slices.Equal(s.allowed, o.allowed) && s.base == o.base &&
			maps.EqualFunc(s.firstArgs, o.firstArgs, func(a, b []string) bool {
				return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
			})
	})
}
