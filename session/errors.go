package session

import "errors"

// ErrNotFound says that there is no such session: it never existed, has expired, was destroyed, or the token's secret is
// wrong; which of these it is, nobody is told. A Redis that does not answer is never ErrNotFound.
var ErrNotFound = errors.New("session: not found")
