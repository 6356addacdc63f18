// Package redispatterns is the map of a module of four Redis patterns, each a package of its own that an application imports.
//
//   - [github.com/redispatterns/redispatterns/session] keeps sessions that every server of an application shares and that
//     survive the loss of any of them: a hash with a TTL per session.
//   - [github.com/redispatterns/redispatterns/ratelimit] limits how often something may happen, for any number of servers
//     together: a counter per window, or a log of requests for a window that slides.
//   - [github.com/redispatterns/redispatterns/ranking] keeps a leaderboard whose ranks are right the moment a score is
//     written: a sorted set.
//   - [github.com/redispatterns/redispatterns/lock] lets one process at a time do something: a key with an owner and a
//     lease, a fencing token for the resource behind it, and a context that ends when the lease is lost.
//
// The packages do not import each other. All take a [Client], which every go-redis v9 client is, and all are made the same
// way: New(client, …, *Options), where nil options work and a zero field is its documented default.
//
// # What holds everywhere
//
// One operation is one round trip to one slot, so everything works on a Redis Cluster; docs/keys.md names the exceptions.
// Redis keeps the time: no clock of an application server decides anything that two servers must agree on.
// "No" is a value or a sentinel error of its own, and Redis being down is never one of them: an error that is none of a
// package's sentinels says what is wrong with the arguments, or wraps what go-redis reported.
// A reply that is lost, which go-redis answers by sending the command again, neither counts, takes nor releases anything
// twice; where that cannot be had, the error says that the outcome is unknown.
//
// # Redis
//
// Redis 7.0 or newer, or Valkey 7.2 or newer: alone, behind Sentinel, or as a cluster.
package redispatterns
