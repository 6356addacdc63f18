#!/usr/bin/env bash
# Rate limits in Redis: 10 requests per 10 seconds, counted in a fixed window and in a sliding one.
source "$(dirname "$0")/../demo.bash"
api=localhost:${PORT:-8082}

up
eventually "$api answers" answers "$api"

# requests sends requests until one is denied, and leaves the number of those allowed in $allowed.
requests() {
  allowed=0
  while http "$api/$1?user=user42" && [[ $status == 200 ]] && ((allowed < 25)); do allowed=$((allowed + 1)); done
}

step "Fixed window: requests until one is denied"
# Where the window ends between the denial and the look at its counter, there is nothing to see: then once more.
for _ in 1 2 3; do
  requests fixed
  holds "the limit was reached, and the answer is 429" is "$status" 429
  holds "10 were allowed, or up to 20 if a window ended meanwhile" between "$allowed" 10 20
  holds "Retry-After says when to come back" between "$retry_after" 1 10
  redis --scan --pattern 'ratelimit:user42:*'
  key=$reply
  [[ $key ]] || continue
  redis GET "$key"
  count=$reply
  redis PTTL "$key"
  [[ $count == 10 ]] && break
done
holds "the key names the window" matches "$key" '^ratelimit:user42:[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}/10s$'
holds "a counter of 10: what was denied was not counted" is "$count" 10
holds "it ends with its window" between "$reply" -2 10000

step "Wait for as long as Retry-After says"
sleep "$retry_after"
http "$api/fixed?user=user42"
holds "allowed again" is "$status" 200

step "Sliding window: requests until one is denied"
requests sliding
holds "the limit was reached, and the answer is 429" is "$status" 429
wait_for=$retry_after
holds "10 were allowed, and one more for each that left the window meanwhile" between "$allowed" 10 20
holds "Retry-After says when to come back" between "$wait_for" 1 10
redis ZRANGE ratelimit:user42 0 -1 WITHSCORES
holds "a log, with a time for each request" matches "$reply" '[0-9]{16}'
redis ZCARD ratelimit:user42
holds "of 10 requests: what was denied is not in it" is "$reply" 10
redis PTTL ratelimit:user42
holds "it ends with its last request" between "$reply" 1 10000

step "Somebody else is not limited"
http "$api/sliding?user=user43"
holds "user43 is allowed" is "$status" 200

step "Wait for as long as Retry-After says"
sleep "$wait_for"
http "$api/sliding?user=user42"
holds "allowed again" is "$status" 200
