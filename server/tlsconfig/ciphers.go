package tlsconfig

import (
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// versions are the names of the protocols from tls.VersionTLS10 on, whose numbers follow each other.
var versions = []string{"tlsv1", "tlsv1.1", "tlsv1.2", "tlsv1.3"}

var errVersionGap = errors.New("there must be no gap between the versions")

// protocols reads a list of versions separated by blanks. crypto/tls knows the first and the last one only, so a list
// with a gap is refused. An empty list is TLS 1.2 and 1.3.
func protocols(list string) (lowest, highest uint16, err error) {
	names := strings.Fields(strings.ToLower(list))
	if len(names) == 0 {
		return tls.VersionTLS12, tls.VersionTLS13, nil
	}
	var enabled [4]bool
	for _, name := range names {
		i := slices.Index(versions, name)
		if i < 0 {
			return 0, 0, fmt.Errorf("unknown version '%s'; there are TLSv1, TLSv1.1, TLSv1.2 and TLSv1.3", name)
		}
		enabled[i] = true
	}
	first, last := slices.Index(enabled[:], true), len(enabled)-1
	for !enabled[last] {
		last--
	}
	if slices.Contains(enabled[first:last], false) {
		return 0, 0, errVersionGap
	}
	return tls.VersionTLS10 + uint16(first), tls.VersionTLS10 + uint16(last), nil
}

// suite is a cipher suite up to TLS 1.2.
type suite struct {
	id       uint16
	openssl  string   // its name there
	name     string   // in the registry of TLS
	words    []string // OpenSSL's keywords that choose it
	insecure bool
}

var suites = knownSuites()

func knownSuites() (list []suite) {
	add := func(insecure bool, all []*tls.CipherSuite) {
		for _, s := range all {
			if !slices.ContainsFunc(s.SupportedVersions, func(v uint16) bool { return v <= tls.VersionTLS12 }) {
				continue
			}
			one := suite{id: s.ID, name: s.Name, insecure: insecure}
			one.openssl, one.words = describe(s)
			list = append(list, one)
		}
	}
	add(false, tls.CipherSuites())
	add(true, tls.InsecureCipherSuites())
	return list
}

// describe derives OpenSSL's name and keywords from the name of the registry, such as
// TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 for ECDHE-RSA-AES128-GCM-SHA256.
func describe(s *tls.CipherSuite) (openssl string, words []string) {
	exchange, rest, _ := strings.Cut(strings.TrimPrefix(s.Name, "TLS_"), "_WITH_")
	words = []string{"ALL"}
	if !slices.ContainsFunc(s.SupportedVersions, func(v uint16) bool { return v < tls.VersionTLS12 }) {
		words = append(words, "TLSv1.2")
	} else {
		words = append(words, "TLSv1", "SSLv3")
	}
	var parts []string
	switch exchange {
	case "RSA":
		words = append(words, "RSA", "kRSA", "aRSA")
	case "ECDHE_RSA":
		parts = append(parts, "ECDHE", "RSA")
		words = append(words, "ECDHE", "EECDH", "kECDHE", "kEECDH", "aRSA")
	case "ECDHE_ECDSA":
		parts = append(parts, "ECDHE", "ECDSA")
		words = append(words, "ECDHE", "EECDH", "kECDHE", "kEECDH", "ECDSA", "aECDSA")
	}
	cipher, hash := rest[:strings.LastIndexByte(rest, '_')], rest[strings.LastIndexByte(rest, '_')+1:]
	switch {
	case cipher == "RC4_128":
		parts = append(parts, "RC4", hash)
		words = append(words, "RC4", "MEDIUM")
	case cipher == "3DES_EDE_CBC":
		parts = append(parts, "DES-CBC3", hash)
		words = append(words, "3DES", "MEDIUM")
	case cipher == "CHACHA20_POLY1305":
		parts = append(parts, "CHACHA20-POLY1305")
		words = append(words, "CHACHA20", "HIGH")
	default: // AES_128_CBC, AES_256_GCM ...
		size, mode := "AES"+cipher[4:7], cipher[8:]
		words = append(words, "AES", size, "HIGH")
		if mode == "GCM" {
			parts = append(parts, size, mode, hash)
			words = append(words, "AESGCM")
		} else {
			parts = append(parts, size, hash)
		}
	}
	if !strings.HasSuffix(cipher, "GCM") && !strings.HasSuffix(cipher, "POLY1305") {
		words = append(words, hash) // as a keyword it means the MAC
		if hash == "SHA" {
			words = append(words, "SHA1")
		}
	}
	return strings.Join(parts, "-"), words
}

// chosenBy reports whether a word of a cipher list means the suite: its name or keywords joined by plus signs.
func (s *suite) chosenBy(word string) bool {
	if word == s.openssl || word == s.name {
		return true
	}
	if word == "DEFAULT" {
		return !s.insecure
	}
	for part := range strings.SplitSeq(word, "+") {
		if !slices.Contains(s.words, part) {
			return false
		}
	}
	return true
}

var errNoCiphers = errors.New("there is no cipher in the list that Go has")

// ciphers reads OpenSSL's cipher list: names or keywords, with a ! or - before those to leave out, separated by colons,
// commas or blanks. The order is of no account, crypto/tls has its own. As in OpenSSL words that choose nothing are
// ignored, they are returned, but something must be chosen. An empty list stands for Go's default.
func ciphers(list string) (ids []uint16, ignored []string, err error) {
	words := strings.FieldsFunc(list, func(r rune) bool { return r == ':' || r == ',' || r == ' ' || r == '\t' })
	if len(words) == 0 {
		return nil, nil, nil
	}
	banned := map[uint16]bool{}
	for _, word := range words {
		op := byte(0)
		if strings.IndexByte("!-+", word[0]) >= 0 {
			op, word = word[0], word[1:]
		}
		chosen := false
		for i := range suites {
			s := &suites[i]
			if !s.chosenBy(word) {
				continue
			}
			chosen = true
			switch op {
			case '!':
				banned[s.id] = true
				fallthrough
			case '-':
				ids = slices.DeleteFunc(ids, func(id uint16) bool { return id == s.id })
			case '+': // moves it to the end
			default:
				if !banned[s.id] && !slices.Contains(ids, s.id) {
					ids = append(ids, s.id)
				}
			}
		}
		if !chosen && op == 0 {
			ignored = append(ignored, word)
		}
	}
	if len(ids) == 0 {
		return nil, nil, errNoCiphers
	}
	return ids, ignored, nil
}

var errSuites = errors.New("TLS 1.3 always offers TLS_AES_128_GCM_SHA256, TLS_AES_256_GCM_SHA384 and " +
	"TLS_CHACHA20_POLY1305_SHA256 here: name all three or none")

// checkSuites refuses a list of TLS 1.3 suites that is not the one of crypto/tls, which cannot be changed.
func checkSuites(list string) error {
	names := strings.FieldsFunc(list, func(r rune) bool { return r == ':' || r == ',' || r == ' ' })
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	if !slices.Equal(slices.Compact(names), []string{"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384",
		"TLS_CHACHA20_POLY1305_SHA256"}) {
		return errSuites
	}
	return nil
}
