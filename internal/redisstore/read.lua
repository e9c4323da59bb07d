-- Everything a rule wants to see of one bucket, at one instant.
--
-- KEYS  1 meta, 2 sessions, 3 workers, 4 index, 5 orders, 6 counts, 7 ring,
--       8 history, then the rows, then the bindings
-- ARGV  1 nonce of the call, 2 "1" for the whole roster, then how many
--       3 rows, 4 sessions, 5 index names, 6 processes, 7 counters, and the
--       names of the last four
-- Reply nonce, server, time, meta, rows, bindings, sessions (token, lease,
--       ...), index, orders, counts, digest of the roster, history
local first, nRows = 8, tonumber(ARGV[3])

local function strings(from, to)
  local out = {}
  for i = from, to, 1000 do
    local got = redis.call('MGET', unpack(KEYS, i, math.min(i + 999, to)))
    local absent = {}
    for j = 1, #got do
      out[#out + 1] = got[j]
      if not got[j] then absent[#absent + 1] = KEYS[i + j - 1] end
    end
    -- MGET says nil for a key of another type too: that is not "absent".
    if absent[1] and redis.call('EXISTS', unpack(absent)) > 0 then
      error('WRONGTYPE a key of the store is not a string')
    end
  end
  return out
end

local function hash(key, names)
  local out = {}
  for i = 1, #names, 1000 do
    local got = redis.call('HMGET', key, unpack(names, i, math.min(i + 999, #names)))
    for j = 1, #got do out[#out + 1] = got[j] end
  end
  return out
end

local function take(n)
  local out = {}
  for i = first, first + n - 1 do out[#out + 1] = ARGV[i] end
  first = first + n
  return out
end

local wanted, known = take(tonumber(ARGV[4])), {}
for _, token in ipairs(wanted) do known[token] = true end
local function want(token)
  if not known[token] then
    known[token] = true
    wanted[#wanted + 1] = token
  end
end

-- The session a row names (codec.go: appendRow).
local function owner(row)
  local kind = string.byte(row, 1)
  if kind >= 128 then
    local n = string.byte(row, 10)
    return '\0' .. string.sub(row, 11, 10 + n)
  end
  if kind == 72 or kind == 104 then return nil end
  return '\1' .. string.sub(row, 10, 21)
end

local rows = strings(9, 8 + nRows)
for i = 1, nRows do
  local token = rows[i] and owner(rows[i])
  if token then want(token) end
end
local bindings = strings(9 + nRows, #KEYS)
local index = hash(KEYS[4], take(tonumber(ARGV[5])))
for i = 1, #index do
  if index[i] then want(index[i]) end
end
local orders = hash(KEYS[5], take(tonumber(ARGV[6])))
local counts = hash(KEYS[6], take(tonumber(ARGV[7])))

local sessions, digest = {}, ''
if ARGV[2] == '1' then
  sessions = redis.call('HGETALL', KEYS[2])
  digest = redis.sha1hex(table.concat(sessions))
else
  local leases = hash(KEYS[2], wanted)
  for i = 1, #wanted do
    sessions[2 * i - 1] = wanted[i]
    sessions[2 * i] = leases[i]
  end
end
return { ARGV[1], server(), string.format('%.0f', (clock())), redis.call('HGET', KEYS[1], 'm'),
  rows, bindings, sessions, index, orders, counts, digest, redis.call('GET', KEYS[8]) }
