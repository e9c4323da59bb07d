-- Compare everything that was read, then apply what the rule wrote.
--
-- KEYS  1 meta, 2 sessions, 3 workers, 4 index, 5 orders, 6 counts, 7 ring,
--       8 history, then the rows and bindings to compare, then others to write
-- ARGV  1 nonce of the call, 2 server, 3 time of the read, 4 latest time the
--       node believes in, 5 not-after, 6 meta as read, 7 digest of the roster
--       ("" not read), 8 commits as read, 9 generation to write ("" unchanged),
--       then how many 10 strings, 11 sessions, 12 index entries, 13 orders were read; their values ("" absent; with their names for
--       the last three); then the writes
-- Reply nonce, server, time, verdict, epochs minted (8 bytes each), commits
local now, offset = clock()
local run = server()
local minted = {}
local history = redis.call('GET', KEYS[8])
local commits = 0
if history then
  local high, low = struct.unpack('>I4I4', history)
  commits = high * 4294967296 + low
end
local function reply(verdict)
  return { ARGV[1], run, string.format('%.0f', now), verdict, minted, string.format('%.0f', commits) }
end

if run ~= ARGV[2] then return reply('server') end
if now < tonumber(ARGV[3]) or commits < tonumber(ARGV[8]) then return reply('back') end
if now > tonumber(ARGV[4]) then return reply('ahead') end
if now >= tonumber(ARGV[5]) then return reply('late') end
if (redis.call('HGET', KEYS[1], 'm') or '') ~= ARGV[6] then return reply('conflict') end
if ARGV[7] ~= '' and redis.sha1hex(table.concat(redis.call('HGETALL', KEYS[2]))) ~= ARGV[7] then
  return reply('conflict')
end

local at = 14
for i = 1, tonumber(ARGV[10]), 1000 do
  local n = math.min(1000, ARGV[10] - i + 1)
  local got = redis.call('MGET', unpack(KEYS, 8 + i, 7 + i + n))
  for j = 1, n do
    if (got[j] or '') ~= ARGV[at] then return reply('conflict') end
    at = at + 1
  end
end
for group, key in ipairs({ KEYS[2], KEYS[4], KEYS[5] }) do
  for _ = 1, tonumber(ARGV[10 + group]) do
    if (redis.call('HGET', key, ARGV[at]) or '') ~= ARGV[at + 1] then return reply('conflict') end
    at = at + 2
  end
end

-- Epochs are two 32-bit halves: a double has 53 bits (R1).
local hi, lo
local function last()
  if hi then return end
  local e = redis.call('HGET', KEYS[1], 'e')
  if e then hi, lo = struct.unpack('>I4I4', e) else hi, lo = 0, 0 end
end
local function raise(h, l)
  last()
  if h > hi or (h == hi and l > lo) then hi, lo = h, l end
end
local function mint(h, l)
  last()
  lo = lo + 1
  if lo == 4294967296 then hi, lo = hi + 1, 0 end
  raise(math.floor(now / 4294967296), now % 4294967296)
  raise(h, l)
  return struct.pack('>I4I4', hi, lo)
end
local function leap(h, l)
  raise(math.floor(now / 4294967296), now % 4294967296)
  hi, lo = hi + h + math.floor((lo + l) / 4294967296), (lo + l) % 4294967296
end

-- Epochs first: running out of them must leave no trace.
local w = at
local raising = { mint = function(h, l) minted[#minted + 1] = mint(h, l) end, floor = raise, leap = leap }
while raising[ARGV[w]] do
  raising[ARGV[w]](tonumber(ARGV[w + 1]), tonumber(ARGV[w + 2]))
  w = w + 3
end
if hi then
  if hi >= 2147483648 then
    minted = {}
    return reply('exhausted')
  end
  redis.call('HSET', KEYS[1], 'e', struct.pack('>I4I4', hi, lo))
end

commits = commits + 1
redis.call('SET', KEYS[8], struct.pack('>I4I4', math.floor(commits / 4294967296), commits % 4294967296) ..
  (ARGV[9] ~= '' and ARGV[9] or string.sub(history or '', 9)))

local logged = false
local write = {
  set = function(a, b) redis.call('SET', KEYS[tonumber(a)], b) return 2 end,
  place = function(a, b, c)
    redis.call('SET', KEYS[tonumber(a)], string.sub(b, 1, 1) .. minted[tonumber(c)] .. string.sub(b, 10))
    return 3
  end,
  del = function(a) redis.call('DEL', KEYS[tonumber(a)]) return 1 end,
  -- Presence must mean that the lease runs, and a key is still there in the
  -- millisecond it expires in: hence one less than the deadline's.
  lease = function(a, b, c)
    local at = math.floor((tonumber(c) - offset) / 1000) - 1
    redis.call('SET', KEYS[tonumber(a)], b, 'PXAT', string.format('%.0f', math.max(at, 1)))
    return 3
  end,
  hset = function(a, b, c) redis.call('HSET', KEYS[tonumber(a)], b, c) return 3 end,
  hdel = function(a, b) redis.call('HDEL', KEYS[tonumber(a)], b) return 2 end,
  add = function(a, b)
    if redis.call('HINCRBY', KEYS[6], a, b) == 0 then redis.call('HDEL', KEYS[6], a) end
    return 2
  end,
  log = function(a, b)
    local epoch = minted[tonumber(b)]
    redis.call('LPUSH', KEYS[7], epoch and epoch .. string.sub(a, 9) or a)
    logged = true
    return 2
  end,
}
while w <= #ARGV do
  w = w + 1 + write[ARGV[w]](ARGV[w + 1], ARGV[w + 2], ARGV[w + 3])
end
if logged then redis.call('LTRIM', KEYS[7], 0, 511) end
return reply('ok')
