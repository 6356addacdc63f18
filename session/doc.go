// Package session keeps sessions that every server of an application shares. Each is a Redis hash at session:<ID>, a hash
// field per field of a struct of the application's, with a TTL: it outlives any server, and ends by itself when it is not
// used.
//
// Most programs make one [Store] with [New], call [Store.Create] when a user logs in, [Store.Load] on each request,
// [Store.Save] after a change and [Store.Destroy] at logout; [Store.Update] where a new value depends on the old one, and
// [Store.Rotate] when the user's rights grow. [Manager] does the same with an HTTP cookie. With [Options.UserField],
// [Store.List] and [Store.DestroyAll] know a user's sessions on all devices.
//
// # What others get wrong
//
// Fields are hash fields, and Save writes those that changed. So requests that run in parallel keep each other's changes,
// and a slow one that only read undoes nothing. Only Create makes a key: a Save that comes after the logout finds
// ErrNotFound and brings nothing back.
//
// What the user holds is a token, ID.secret. The hash keeps SHA-256 of the secret alone: who reads a dump of Redis can
// open no session, and an ID may be logged.
//
// # Time
//
// A session ends IdleTimeout after its last use, and at the end of its Lifetime at the latest; Redis keeps that time. A read
// is one round trip that writes nothing, until by the key's own TTL a renewal is due (see [Options.TouchEvery]); then it is
// two. What a clock of this process says changes nothing but the times shown in a [Session].
//
// # Errors
//
// [ErrNotFound] is the "no" of this package; [ErrConflict], [ErrTooLarge] and [ErrUnknown] are the answers to certain writes.
// Every other error of a Store means that Redis could not be asked, that the arguments are wrong or that a field in Redis
// does not hold what T says; a server should answer it with 503 rather than take the user for a stranger. An error names
// the key and holds no secret.
//
// A replica may lag behind its master: a client that reads from replicas can miss a session just made and still see one
// just destroyed. With go-redis' client-side cache List and DestroyAll can too, for some milliseconds; what is asked by a
// token or an ID does not go through it, but on an AutoPipeliner.
package session
