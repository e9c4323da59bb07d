-- 1000 different ids over the connections of a closed loop; one line of figures at the end.
local requests, n = {}, 0

function init()
  for i = 0, 999 do
    requests[i] = wrk.format("GET", string.format("/threads/t_%06d/ok?x=1", i))
  end
end

function request()
  n = (n + 1) % 1000
  return requests[n]
end

function done(summary, latency)
  local e = summary.errors
  io.write(string.format("FIGURES %d %d %d %d %d\n", summary.requests, summary.duration,
    e.connect + e.read + e.write + e.status + e.timeout, latency:percentile(50), latency:percentile(99)))
end
