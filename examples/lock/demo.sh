#!/usr/bin/env bash
# A distributed lock: two processes race for it and one fails; expiry frees it when its holder dies; the owner releases it,
# and a stranger cannot.
source "$(dirname "$0")/../demo.bash"
api=localhost:${PORT:-8084} key=lock:order:12345

said() { compose logs --no-color "$1" 2>/dev/null | grep -q "$2"; }
raced() { { said worker-a holds && said worker-b refused; } || { said worker-b holds && said worker-a refused; }; }
holders() { compose logs --no-color worker-a worker-b 2>/dev/null | grep -c holds || true; }
fence() { compose logs --no-color "$1" 2>/dev/null | sed -n 's/.*holds.*fence \([0-9]*\).*/\1/p'; }

up
eventually "$api answers" answers "$api"

step "Two processes race for one lock"
eventually "one worker holds the lock and the other is refused" raced
compose logs --no-color worker-a worker-b 2>/dev/null | grep worker-.*order:12345 || true
compose logs --no-color worker-a worker-b 2>/dev/null | grep refused
holds "one of them holds it" is "$(holders)" 1
winner=worker-a loser=worker-b
said worker-b holds && winner=worker-b loser=worker-a
first=$(fence $winner)

step "Look into Redis: the owner's UUID, with a TTL"
redis GET $key
holds "it is a UUID" matches "$reply" '^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$'
redis PTTL $key
holds "of 5 seconds at the most, which the holder renews" between "$reply" 1 5000
http "$api/lock/status/order:12345"
holds "the API sees it held" is "$(field held)" true
http -d '{"resource":"order:12345"}' "$api/lock/acquire"
holds "and refuses a third" is "$status" 409

step "The holder, $winner, dies (SIGKILL): nobody releases, so expiry frees the lock"
compose kill -s SIGKILL $winner >/dev/null 2>&1
eventually "$loser holds the lock" said $loser holds
compose logs --no-color $loser 2>/dev/null | grep holds
second=$(fence $loser)
holds "$loser holds it, with a fence that is greater: a late write of $winner can be told by it" between "$first" 1 $((second - 1))

step "The owner, $loser, stops and releases"
compose stop $loser >/dev/null 2>&1
holds "it says so" said $loser "releases order:12345"
redis EXISTS $key
holds "the lock is free at once" is "$reply" 0

step "Only the owner can release"
http -d '{"resource":"order:12345"}' "$api/lock/acquire"
holds "acquired" is "$status" 200
owner=$(field owner)
http -d '{"resource":"order:12345","owner":"00000000-0000-4000-8000-000000000000"}' "$api/lock/release"
holds "a stranger is refused" is "$status" 403
redis GET $key
holds "the owner still holds it" is "$reply" "$owner"
http -d "{\"resource\":\"order:12345\",\"owner\":\"$owner\"}" "$api/lock/release"
holds "the owner releases" is "$status" 200
redis EXISTS $key
holds "it is free" is "$reply" 0

step "And expiry frees a lock that its owner forgot"
http -d '{"resource":"order:12345"}' "$api/lock/acquire"
holds "acquired" is "$status" 200
redis PTTL $key
holds "for 10 seconds" between "$reply" 1 10000
unlocked() { [[ $(ask EXISTS $key) == 0 ]]; }
eventually "it has expired" unlocked
http -d '{"resource":"order:12345"}' "$api/lock/acquire"
holds "it can be acquired again" is "$status" 200
