package tlsconfig

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/des"
	"crypto/pbkdf2"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"hash"
	"strings"
)

var (
	errNoPass    = errors.New("the private key is encrypted")
	errWrongPass = errors.New("it does not decrypt the private key")
	errBadKey    = errors.New("the encrypted private key is damaged")
)

// decryptKey returns a PEM file with its private key in the clear: one of PKCS #8 that is encrypted by PBES2 (RFC
// 8018), which OpenSSL 3 writes, or one of OpenSSL's own older form. A key that is not encrypted is returned as it
// is.
func decryptKey(file, pass []byte) ([]byte, error) {
	for rest := file; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return file, nil
		}
		var der []byte
		var err error
		switch {
		case block.Type == "ENCRYPTED PRIVATE KEY":
			if len(pass) == 0 {
				return nil, errNoPass
			}
			der, err = decryptPKCS8(block.Bytes, pass)
			block.Type = "PRIVATE KEY"
		case strings.HasSuffix(block.Type, "PRIVATE KEY") && block.Headers["DEK-Info"] != "":
			if len(pass) == 0 {
				return nil, errNoPass
			}
			//lint:ignore SA1019 The form is weak, but files of it are there and the file is the administrator's own.
			der, err = x509.DecryptPEMBlock(block, pass)
			if errors.Is(err, x509.IncorrectPasswordError) || err == nil && !isKey(block.Type, der) {
				err = errWrongPass
			}
			block.Headers = nil
		default:
			continue
		}
		if err != nil {
			return nil, err
		}
		block.Bytes = der
		return pem.EncodeToMemory(block), nil
	}
}

// isKey reports whether der can be a private key of the PEM block type. The padding alone lets one wrong passphrase
// of 256 pass.
func isKey(blockType string, der []byte) bool {
	var err error
	switch blockType {
	case "EC PRIVATE KEY":
		_, err = x509.ParseECPrivateKey(der)
	case "RSA PRIVATE KEY":
		_, err = x509.ParsePKCS1PrivateKey(der)
	default:
		var sequence []asn1.RawValue
		err = unmarshal(der, &sequence)
	}
	return err == nil
}

// The structures of RFC 5958 and RFC 8018.
type (
	encryptedKey struct {
		Algorithm pkix.AlgorithmIdentifier
		Data      []byte
	}
	pbes2Params struct {
		KDF, Scheme pkix.AlgorithmIdentifier
	}
	pbkdf2Params struct {
		Salt       asn1.RawValue
		Iterations int
		KeyLength  int                      `asn1:"optional"`
		PRF        pkix.AlgorithmIdentifier `asn1:"optional"`
	}
)

var (
	oidPBES2  = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 5, 13}
	oidPBKDF2 = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 5, 12}
)

// prfs are the hashes of PBKDF2's HMAC by the last number of their identifier, 1.2.840.113549.2.n.
var prfs = map[string]func() hash.Hash{
	"":                    sha1.New, // the default
	"1.2.840.113549.2.7":  sha1.New,
	"1.2.840.113549.2.8":  sha256.New224,
	"1.2.840.113549.2.9":  sha256.New,
	"1.2.840.113549.2.10": sha512.New384,
	"1.2.840.113549.2.11": sha512.New,
}

// schemes are the block ciphers, all in CBC mode, and the lengths of their keys in bytes.
var schemes = map[string]struct {
	key int
	new func([]byte) (cipher.Block, error)
}{
	"2.16.840.1.101.3.4.1.2":  {16, aes.NewCipher},
	"2.16.840.1.101.3.4.1.22": {24, aes.NewCipher},
	"2.16.840.1.101.3.4.1.42": {32, aes.NewCipher},
	"1.2.840.113549.3.7":      {24, des.NewTripleDESCipher},
}

// maxIterations bounds the work for a file that asks for more than anyone writes.
const maxIterations = 10_000_000

func decryptPKCS8(der, pass []byte) ([]byte, error) {
	var key encryptedKey
	if err := unmarshal(der, &key); err != nil {
		return nil, err
	}
	if !key.Algorithm.Algorithm.Equal(oidPBES2) {
		return nil,
			fmt.Errorf("the private key is encrypted by %v, only PBES2 is known: convert it with openssl pkcs8 -topk8 -v2 "+
				"aes-256-cbc", key.Algorithm.Algorithm)
	}
	var params pbes2Params
	if err := unmarshal(key.Algorithm.Parameters.FullBytes, &params); err != nil {
		return nil, err
	}
	if !params.KDF.Algorithm.Equal(oidPBKDF2) {
		return nil,
			fmt.Errorf("the private key's passphrase goes through %v, only PBKDF2 is known: convert it with openssl pkcs8 "+
				"-topk8 -v2 aes-256-cbc", params.KDF.Algorithm)
	}
	var kdf pbkdf2Params
	if err := unmarshal(params.KDF.Parameters.FullBytes, &kdf); err != nil {
		return nil, err
	}
	prf, ok := prfs[kdf.PRF.Algorithm.String()]
	if !ok {
		return nil, fmt.Errorf("the private key's passphrase goes through the unknown function %v", kdf.PRF.Algorithm)
	}
	scheme, ok := schemes[params.Scheme.Algorithm.String()]
	if !ok {
		return nil, fmt.Errorf("the private key is encrypted by the unknown cipher %v", params.Scheme.Algorithm)
	}
	var iv []byte
	if err := unmarshal(params.Scheme.Parameters.FullBytes, &iv); err != nil {
		return nil, err
	}
	if kdf.Iterations < 1 || kdf.Iterations > maxIterations || kdf.KeyLength != 0 && kdf.KeyLength != scheme.key {
		return nil, errBadKey
	}
	secret, err := pbkdf2.Key(prf, string(pass), kdf.Salt.Bytes, kdf.Iterations, scheme.key)
	if err != nil {
		return nil, err
	}
	block, err := scheme.new(secret)
	if err != nil {
		return nil, err
	}
	size := block.BlockSize()
	if len(iv) != size || len(key.Data) == 0 || len(key.Data)%size != 0 {
		return nil, errBadKey
	}
	plain := make([]byte, len(key.Data))
	cipher.NewCBCDecrypter(block, iv).CryptBlocks(plain, key.Data)
	// The padding tells a wrong passphrase from the right one, nearly always; the parser of the key tells the rest.
	n := int(plain[len(plain)-1])
	if n < 1 || n > size || !bytes.Equal(plain[len(plain)-n:], bytes.Repeat([]byte{byte(n)}, n)) {
		return nil, errWrongPass
	}
	plain = plain[:len(plain)-n]
	if _, err := x509.ParsePKCS8PrivateKey(plain); err != nil {
		return nil, errWrongPass
	}
	return plain, nil
}

func unmarshal(der []byte, v any) error {
	rest, err := asn1.Unmarshal(der, v)
	if err != nil || len(rest) > 0 {
		return errBadKey
	}
	return nil
}
