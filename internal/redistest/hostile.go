package redistest

import (
	"flag"
	"strings"
)

// Hostile are texts that break what is careless about names and ids: the seeds of every fuzz target that takes one.
func Hostile() []string {
	texts := []string{
		"", "\x00", "a\x00b", "\n", "a\r\nb", "\r\n$3\r\nfoo\r\n", "{", "}", "{}", "{}a", "a}b", "}a{", "{a}b", "a{b}c{d}", "{{a}}", "a{b",
		"\xff\xfe", "\xc3\x28", "a\u2028b", "日本語", "~", "a~", "a~f", "a~q", "{a}~o0", "~s{tag}", "a~d:2026-08-09", ":", "a:b", "user:x",
		"a:2026-08-09T12:00", "2026-08-09", "x:2026-08-09T12:00/5m", "*", "[a-z]?", "\\", `"`, "%s%d%!", "' .. redis.call('FLUSHALL') .. '",
		"-1", "0", "1e309", "nan", "-inf", "0x10", "9007199254740993", "18446744073709551616", " 1 ", "1 2 3", "p3:a", "rabc",
		"../../etc/passwd", strings.Repeat("x", 512), strings.Repeat("é", 300),
	}
	if fuzz := flag.Lookup("test.fuzz"); fuzz == nil || fuzz.Value.String() == "" { // mutating a megabyte takes all the time
		texts = append(texts, strings.Repeat("a{}", 1<<20/3))
	}
	return texts
}
