#!/usr/bin/env bash
# Real-time ranking: a score is ranked the moment it is written.
source "$(dirname "$0")/../demo.bash"
api=localhost:${PORT:-8083}

up
eventually "$api answers" answers "$api"

step "Register scores"
http -d '{"player":"alice","score":1500}' "$api/ranking/score"
holds "alice is first" is "$(field rank)" 1
http -d '{"player":"bob","score":1200}' "$api/ranking/score"
holds "bob is second" is "$(field rank)" 2
http -d '{"player":"carol","score":1400}' "$api/ranking/score"
holds "carol comes between them" is "$(field rank)" 2

step "Show the ranking"
http "$api/ranking?top=3"
holds "alice, carol, bob" matches "$body" 'alice.*1500.*carol.*1400.*bob.*1200'
redis ZREVRANGE ranking:game 0 -1 WITHSCORES
holds "Redis has the same" is "$(tr '\n' ' ' <<<"$reply")" "player:alice 1500 player:carol 1400 player:bob 1200 "

step "Carol scores 200 points"
http -d '{"player":"carol","delta":200}' "$api/ranking/increment"
holds "the write's own answer says that she leads" is "$(field score) $(field rank)" "1600 1"

step "Show the ranking again"
http "$api/ranking?top=3"
holds "carol, alice, bob" matches "$body" 'carol.*1600.*alice.*1500.*bob.*1200'
redis ZREVRANGE ranking:game 0 -1 WITHSCORES
holds "Redis has the same" is "$(tr '\n' ' ' <<<"$reply")" "player:carol 1600 player:alice 1500 player:bob 1200 "

step "One player"
http "$api/ranking/player/bob"
holds "bob is third" is "$(field score) $(field rank)" "1200 3"
http "$api/ranking/player/nobody"
holds "who has no score has no rank" is "$status" 404
