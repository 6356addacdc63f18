#!/usr/bin/env bash
# Sessions in Redis: log in at one of two servers, stop it, and be logged in at the other all the same.
source "$(dirname "$0")/../demo.bash"
proxy=localhost:${PORT:-8085} server_a=localhost:${PORT_A:-8080} server_b=localhost:${PORT_B:-8081}
jar=$scratch/jar

up
for server in "$server_a" "$server_b" "$proxy"; do eventually "$server answers" answers "$server"; done

step "Nobody is logged in"
http "$proxy/me"
holds "without a session the answer is 401" is "$status" 401

step "Log in, at whichever server the proxy chooses"
http -c "$jar" -d '{"username":"tanaka","role":"admin"}' "$proxy/login"
holds "the login succeeds" is "$status" 200
first=$(field server)

step "Look into Redis: a hash with a TTL"
redis --scan --pattern 'session:*'
key=$reply
holds "there is one session" matches "$key" '^session:[^[:space:]]+$'
redis HGETALL "$key"
holds "it is tanaka's" matches "$reply" username.tanaka
holds "he is an admin" matches "$reply" role.admin
redis TTL "$key"
holds "it ends 1800 seconds after its last use" between "$reply" 1740 1800

step "Either server knows the user"
http -b "$jar" "$server_a/me"
holds "server A knows tanaka" is "$(field server) $(field username)" "server-a tanaka"
http -b "$jar" "$server_b/me"
holds "server B knows tanaka" is "$(field server) $(field username)" "server-b tanaka"

step "Stop $first, which did the login"
other=server-b
[[ $first == server-b ]] && other=server-a
compose stop "$first" >/dev/null 2>&1
for _ in 1 2 3; do
  http -b "$jar" "$proxy/me"
  holds "still logged in, at $other" is "$status $(field server) $(field username)" "200 $other tanaka"
done

step "Start $first again: it has forgotten nothing, for it had nothing to remember"
compose start "$first" >/dev/null 2>&1
address=$server_a
[[ $first == server-b ]] && address=$server_b
eventually "$first answers" answers "$address"
http -b "$jar" "$address/me"
holds "logged in at $first" is "$status $(field server) $(field username)" "200 $first tanaka"

step "Log out at one server: out at both"
http -b "$jar" -X POST "$address/logout"
holds "the logout succeeds" is "$status" 200
redis EXISTS "$key"
holds "the session is gone from Redis" is "$reply" 0
for server in "$server_a" "$server_b"; do
  http -b "$jar" "$server/me"
  holds "logged out" is "$status" 401
done
