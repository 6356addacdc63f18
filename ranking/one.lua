-- one.lua writes one score to one board that has nothing beside it, and answers where its member stands: the most frequent
-- write, which write.lua would do too, in twice the time.
--
-- KEYS[1]  the board
-- ARGV[1]  set, add, or what ZADD calls the better one: gt or lt
-- ARGV[2]  member
-- ARGV[3]  score, or what to add, which makes no score infinite
-- ARGV[4]  how it ranks: zrevrank or zrank, of ties ordinal; else desc or asc, of competition
-- ARGV[5]  TTL in ms; 0 for none
--
-- Returns {rank from 1, score as stored, members, 1 if that is another than before}.

local call, key, verb, member, score, how = redis.call, KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local changed, better
if verb == 'add' then
  local old = call('ZSCORE', key, member)
  score = call('ZINCRBY', key, score, member)
  changed = old ~= score and 1 or 0
elseif verb == 'set' then
  changed = call('ZADD', key, 'CH', score, member)
else
  changed = call('ZADD', key, verb, 'CH', score, member)
  score = call('ZSCORE', key, member)
end
if ARGV[5] ~= '0' then call('PEXPIRE', key, ARGV[5]) end
if how == 'desc' then
  better = call('ZCOUNT', key, '(' .. score, '+inf')
elseif how == 'asc' then
  better = call('ZCOUNT', key, '-inf', '(' .. score)
else
  better = call(how, key, member)
end
return {better + 1, score, call('ZCARD', key), changed}
