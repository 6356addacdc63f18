package session

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"strings"
)

// A token is ID.secret, both of them base32 from crypto/rand: 100 bits that tell sessions apart, at a length that keeps the
// key within 32 bytes of Redis' memory, and 130 bits that nobody guesses.
const (
	idLen     = 20
	secretLen = 26
)

func newID() string { return rand.Text()[:idLen] }

func newSecret() string { return rand.Text() }

func joinToken(id, secret string) string { return id + "." + secret }

// splitToken takes a token apart. It accepts exactly what joinToken makes, so that nothing else reaches Redis.
func splitToken(token string) (id, secret string, ok bool) {
	id, secret, ok = strings.Cut(token, ".")
	return id, secret, ok && isID(id) && isText(secret, secretLen)
}

func isID(s string) bool { return isText(s, idLen) }

// isText says whether s looks like n letters of rand.Text.
func isText(s string, n int) bool {
	if len(s) != n {
		return false
	}
	for _, c := range []byte(s) {
		if !('A' <= c && c <= 'Z' || '2' <= c && c <= '7') {
			return false
		}
	}
	return true
}

// secretHash is what Redis keeps of a secret: SHA-256 in 43 letters, since a hash with a value of over 64 bytes takes twice
// the memory. The secret is random, so a fast hash is enough.
type secretHash [43]byte

func hashSecret(secret string) (h secretHash) {
	sum := sha256.Sum256([]byte(secret))
	base64.RawURLEncoding.Encode(h[:], sum[:])
	return h
}

// is compares in constant time with what Redis holds.
func (h secretHash) is(stored string) bool {
	var other secretHash
	return copy(other[:], stored) == len(stored) && subtle.ConstantTimeCompare(h[:], other[:]) == 1
}

func (h secretHash) String() string { return string(h[:]) }
