-- unindex.lua takes sessions out of a user's index.
--
-- KEYS[1]    the index
-- ARGV[1]    how many milliseconds old an entry must be
-- ARGV[2]... ID and score of each entry; it stays where it has got another score since, and '' stands for any
--
-- Returns how many entries it took out.
local time = redis.call('TIME')
local latest = tonumber(time[1] .. string.sub('00000' .. time[2], -6)) - ARGV[1] * 1000
local n = 0
for i = 2, #ARGV, 2 do
  local score = tonumber(redis.call('ZSCORE', KEYS[1], ARGV[i]) or nil)
  if score and score <= latest and (ARGV[i + 1] == '' or score == tonumber(ARGV[i + 1])) then
    n = n + redis.call('ZREM', KEYS[1], ARGV[i])
  end
end
return n
