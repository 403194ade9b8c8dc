package syntax

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
	text   string   // of a number, as the compiler reads it; "" = it is made of the value
}

// reserved returns the token of a reserved word, tokenName for another.
func reserved(word string) tokenKind {
	switch word {
	case "and":
		return tokenAnd
	case "break":
		return tokenBreak
	case "do":
		return tokenDo
	case "else":
		return tokenElse
	case "elseif":
		return tokenElseif
	case "end":
		return tokenEnd
	case "false":
		return tokenFalse
	case "for":
		return tokenFor
	case "function":
		return tokenFunction
	case "if":
		return tokenIf
	case "in":
		return tokenIn
	case "local":
		return tokenLocal
	case "nil":
		return tokenNil
	case "not":
		return tokenNot
	case "or":
		return tokenOr
	case "repeat":
		return tokenRepeat
	case "return":
		return tokenReturn
	case "then":
		return tokenThen
	case "true":
		return tokenTrue
	case "until":
		return tokenUntil
	case "while":
		return tokenWhile
	}
	return tokenName
}
