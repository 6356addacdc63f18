package ratelimit

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

var errNoAddress = errors.New("the request has no client address")

// ClientIP counts a request against the address that it comes from: the peer's, or, where the peer is a trusted proxy, the
// first hop of X-Forwarded-For that is none, from the right, since what stands left of that may be anybody's invention. A
// hop that cannot be read ends the search, and the one before it counts; where all are trusted, the leftmost one does.
// IPv6 addresses count by their /64, which one customer usually has. Give no prefix where no proxy stands in front.
// A request without an address is an error, lest all such share one limit.
func ClientIP(trusted ...netip.Prefix) KeyFunc {
	trusted = slices.Clone(trusted)
	for i, p := range trusted {
		if a := p.Addr(); a.Is4In6() && p.Bits() >= 96 {
			trusted[i] = netip.PrefixFrom(a.Unmap(), p.Bits()-96)
		}
	}
	isTrusted := func(a netip.Addr) bool {
		return slices.ContainsFunc(trusted, func(p netip.Prefix) bool { return p.Contains(a) })
	}
	return func(r *http.Request) (string, error) {
		addr, ok := parseAddr(r.RemoteAddr)
		if !ok {
			return "", fmt.Errorf("%w: %.64q", errNoAddress, r.RemoteAddr)
		}
		lines := r.Header["X-Forwarded-For"]
		for i := len(lines) - 1; i >= 0; i-- {
			hops := strings.Split(lines[i], ",")
			for j := len(hops) - 1; j >= 0; j-- {
				if !isTrusted(addr) {
					return addrKey(addr), nil
				}
				hop, ok := parseAddr(strings.TrimSpace(hops[j]))
				if !ok {
					return addrKey(addr), nil
				}
				addr = hop
			}
		}
		return addrKey(addr), nil
	}
}

// parseAddr reads an address, with or without a port, as an IPv4 one where it is one.
func parseAddr(s string) (netip.Addr, bool) {
	addr, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(s, "["), "]"))
	if err != nil {
		var with netip.AddrPort
		if with, err = netip.ParseAddrPort(s); err != nil {
			return netip.Addr{}, false
		}
		addr = with.Addr()
	}
	return addr.Unmap().WithZone(""), true
}

func addrKey(a netip.Addr) string {
	if a.Is4() {
		return a.String()
	}
	p, _ := a.Prefix(64) // 64 bits are there
	return p.String()
}
