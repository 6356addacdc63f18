// Package ranking keeps leaderboards whose ranks are right the moment a score is written: who is first, where a player
// stands, and what an update did to that, each in one round trip.
//
// [New] makes a [Leaderboard]. [Leaderboard.Set] replaces a score, [Leaderboard.Increment] adds to it, and
// [Leaderboard.Best] keeps the better of two, which is what a high score is; each answers the rank, the score and how many
// members there are. Most readers call [Leaderboard.Top] for the head of the list and [Leaderboard.Get] for one member.
//
// A board is one sorted set, ranking:<name>, with members and scores as redis-cli shows them. Ranks begin with 1, and a
// member that is not there is [ErrNotFound], never rank 0 or score 0.
//
// [NewWindows] keeps a board per hour, day, week or month beside the one of all time, and writes to all of them at once.
// [NewSharded] spreads a board that is too large for one node. [Leaderboard.Watch] shows the top as it changes.
//
// # Ties
//
// How equal scores rank is an option: [Ordinal] (1 2 3 4, by name), which is the fastest; [Competition] (1 2 2 4), where a
// rank depends on the score alone, as in sports; [Dense] (1 2 2 3); and [EarliestFirst] (1 2 3 4), where who reached the score
// first is ahead. All reads and all writes of a board agree on every member's rank.
//
// # Scores
//
// Scores are float64, stored and read back bit for bit; a negative zero is stored as 0. NaN and infinities are [ErrScore],
// and so is an Increment whose sum would be infinite, unless another program made the score so. An infinity that another
// program stored is read as it is, and ranks first or last. Sums of fractions drift as float64 does (0.1 + 0.2 is not 0.3): count
// in integers, such as cents, where that matters. Integers are exact up to 2^53.
//
// # Failure
//
// Set and Best may be sent again by go-redis when a reply is lost, with the same result. An Increment is sent once: if no
// reply comes, the error is [ErrUnknown]. [Leaderboard.IncrementOnce] names the operation, counts it once however often it is
// sent, and may always be repeated. Redis being down is an error that wraps what go-redis reported.
package ranking
