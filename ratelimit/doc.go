// Package ratelimit limits how often something may happen, for any number of processes together.
//
// [NewFixedWindow] counts in windows that begin at round times: cheapest, one small key per id, and the counter can be read
// with redis-cli. Around a window's end it lets up to twice the limit through. [NewSlidingWindow] keeps a log of the
// requests and holds the limit in every window, wherever it is laid; each request costs about 25 bytes while it is in the
// window. Choose it for limits of up to about a hundred. [NewSlidingCounter] estimates the same with two counters, in one small
// key whatever the limit. [NewTokenBucket] lets a burst through at once and then an even stream.
//
// Most callers want [Limiter.Allow]:
//
//	limiter, err := ratelimit.NewFixedWindow(client, ratelimit.PerMinute(100), nil)
//	...
//	result, err := limiter.Allow(ctx, "user42")
//	switch {
//	case err != nil: // Redis did not answer: this is no denial
//	case !result.Allowed: // come back after result.RetryAfter
//	}
//
// A denial is a [Result], an error means that there is no decision. What is denied is not counted, so somebody who keeps
// asking while over the limit is let in as soon as the limit allows.
//
// Redis keeps the time: the clocks of the processes may differ by hours.
package ratelimit
