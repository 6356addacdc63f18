// Package rediskey knows how Redis Cluster maps keys to slots, and names the companion keys that must share one.
package rediskey

import (
	"errors"
	"strings"
)

// Slots is how many slots a cluster has.
const Slots = 16384

// ErrName is the reason why a key cannot be used: no companion key could be told from it, or follow it to its slot.
var ErrName = errors.New("unusable name")

type nameError string

func (e nameError) Error() string { return string(e) }

func (e nameError) Is(target error) bool { return target == ErrName }

const (
	errEmpty  = nameError("the name is empty")
	errSuffix = nameError("the name ends like a companion key: in ~ and lower-case letters, digits or any of :-{}")
	errBraces = nameError("the name has a } but no {tag}, so no companion key can share its slot")
)

// Slot is the slot of key in a Redis Cluster, as in CLUSTER KEYSLOT: the CRC16 of its {tag}, or of all of it.
func Slot(key string) int {
	if t, ok := tag(key); ok {
		key = t
	}
	return int(crc16(key)) % Slots
}

// Check refuses a key that no companion can follow to its slot, or that could itself be another key's companion.
func Check(key string) error {
	if key == "" {
		return errEmpty
	}
	if ReservedSuffix(key) {
		return errSuffix
	}
	if _, ok := tag(key); !ok && strings.IndexByte(key, '}') >= 0 {
		return errBraces
	}
	return nil
}

// Companion is the key that lies beside key, in its slot: suffix begins with "~". The key has passed Check.
func Companion(key, suffix string) string {
	if _, ok := tag(key); ok {
		return key + suffix
	}
	return "{" + key + "}" + suffix
}

// ReservedSuffix says whether name ends as companion keys do: in "~" and lower-case letters, digits or any of ":-{}".
func ReservedSuffix(name string) bool {
	i := strings.LastIndexByte(name, '~')
	if i < 0 || i == len(name)-1 {
		return false
	}
	for _, c := range []byte(name[i+1:]) {
		switch {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == ':', c == '-', c == '{', c == '}':
		default:
			return false
		}
	}
	return true
}

// tag is what lies between the first { and the first } after it; an empty one is none.
func tag(key string) (string, bool) {
	_, after, ok := strings.Cut(key, "{")
	if !ok {
		return "", false
	}
	t, _, ok := strings.Cut(after, "}")
	return t, ok && t != ""
}

// crc16 is CRC-16/XMODEM, the one that the Redis Cluster specification names.
func crc16(s string) uint16 {
	var crc uint16
	for i := range len(s) {
		crc = crc<<8 ^ crcTable[byte(crc>>8)^s[i]]
	}
	return crc
}

var crcTable = func() (t [256]uint16) {
	for i := range t {
		crc := uint16(i) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
		t[i] = crc
	}
	return t
}()
