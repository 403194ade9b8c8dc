package luac

import "strconv"

// tokenKind tells tokens apart. Tokens of one byte are that byte.
type tokenKind int16

// The other tokens; reserved words come first.
const (
	tokenAnd tokenKind = iota + 257
	tokenBreak
	tokenDo
	tokenElse
	tokenElseif
	tokenEnd
	tokenFalse
	tokenFor
	tokenFunction
	tokenIf
	tokenIn
	tokenLocal
	tokenNil
	tokenNot
	tokenOr
	tokenRepeat
	tokenReturn
	tokenThen
	tokenTrue
	tokenUntil
	tokenWhile
	tokenConcat
	tokenDots
	tokenEq
	tokenGe
	tokenLe
	tokenNe
	tokenNumber
	tokenName
	tokenString
	tokenEOF
)

var tokenNames = [...]string{
	"and", "break", "do", "else", "elseif", "end", "false", "for", "function", "if", "in", "local", "nil", "not", "or",
	"repeat", "return", "then", "true", "until", "while", "..", "...", "==", ">=", "<=", "~=", "<number>", "<name>",
	"<string>", "<eof>",
}

// String returns how errors call a token.
func (k tokenKind) String() string {
	switch {
	case k >= tokenAnd:
		return tokenNames[k-tokenAnd]
	case k < ' ' || k == 0x7f:
		return "char(" + strconv.Itoa(int(k)) + ")"
	}
	return string([]byte{byte(k)})
}

// token is what the scanner reads.
type token struct {
	kind   tokenKind
	symbol symbolID // of a name or string
	value  float64  // of a number
}

var reservedWords = func() map[string]tokenKind {
	words := map[string]tokenKind{}
	for kind := tokenAnd; kind <= tokenWhile; kind++ {
		words[kind.String()] = kind
	}
	return words
}()
