package session

import "errors"

var (
	// ErrNotFound says that there is no such session: it never existed, has expired, was destroyed, or the token's secret
	// is wrong; which of these it is, nobody is told. A Redis that does not answer is never ErrNotFound.
	ErrNotFound = errors.New("session: not found")

	// ErrConflict says that others were faster: an Update lost each of its tries, or another Rotate came first. Nothing was
	// written.
	ErrConflict = errors.New("session: conflict")

	// ErrTooLarge says that the fields of a session have more than Options.MaxBytes. Nothing was written.
	ErrTooLarge = errors.New("session: too large")

	// ErrUnknown says that an Update or a Rotate was sent and no reply came, so that it may have been applied. The error
	// wraps the reason too.
	ErrUnknown = errors.New("session: outcome unknown")
)
