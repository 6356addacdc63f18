-- get.lua answers where members stand.
--
-- KEYS[1]  the board
-- KEYS[2]  its companion, where Ties has one
-- ARGV[1]  desc or asc
-- ARGV[2]  ties: ordinal, competition, dense or earliest
-- ARGV[3]  the packing that is recorded with the board, of earliest
-- ARGV[4]...  members
--
-- Returns {members on the board, then of each asked for: rank from 1 or nil, score as stored}. Error: UNSUPPORTED.

local desc, ties, beside = ARGV[1] == 'desc', ARGV[2], KEYS[2] or KEYS[1]
local reply = {redis.call('ZCARD', KEYS[1])}
if reply[1] > 0 then
  if ties == 'earliest' and redis.call('GET', beside) ~= ARGV[3] then
    return redis.error_reply('UNSUPPORTED the board was written with another Earliest')
  elseif ties == 'dense' and redis.call('EXISTS', beside) == 0 then
    return redis.error_reply('UNSUPPORTED the board was written with other Ties')
  end
end
for i = 4, #ARGV do
  local member = ARGV[i]
  local score, rank = redis.call('ZSCORE', KEYS[1], member), false
  if score then
    if ties == 'ordinal' or ties == 'earliest' then
      rank = redis.call(desc and 'ZREVRANK' or 'ZRANK', KEYS[1], member) + 1
    else
      rank = redis.call('ZCOUNT', beside, desc and '(' .. score or '-inf', desc and '+inf' or '(' .. score) + 1
    end
  end
  reply[#reply + 1], reply[#reply + 2] = rank, score or '0'
end
return reply
