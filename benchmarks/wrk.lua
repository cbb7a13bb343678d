-- The load of `benchmarks/pinned.py`: wrk -s wrk.lua URL -- TEXT BODY [HEADER VALUE]...
-- BODY is a call with %d in place of its id, and wherever the number of the call stands. Every answer must be a 200 that holds TEXT; `done` prints one line of JSON:
-- calls, seconds, p50 and p99 in seconds, and how many answers were wrong.

-- So many ids, in turns: more than calls in flight, and than answers that the gateway keeps. The requests are made once.
local IDS = 4096

wrong = 0

local threads = {}

function setup(thread)
  threads[#threads + 1] = thread
end

function init(args)
  wrk.method = "POST"
  for i = 3, #args, 2 do
    wrk.headers[args[i]] = args[i + 1]
  end
  text = args[1]
  requests = {}
  for id = 1, IDS do
    requests[id] = wrk.format(nil, nil, nil, (args[2]:gsub("%%d", id)))
  end
  at = 0
end

function request()
  at = at % IDS + 1
  return requests[at]
end

function response(status, headers, body)
  if status ~= 200 or not body:find(text, 1, true) then
    wrong = wrong + 1
  end
end

function done(summary, latency)
  local errors = summary.errors
  local all = errors.connect + errors.read + errors.write + errors.timeout
  for _, thread in ipairs(threads) do
    all = all + thread:get("wrong")
  end
  local line = '{"calls": %d, "seconds": %.6f, "p50": %.9f, "p99": %.9f, "wrong": %d}\n'
  local half, most = latency:percentile(50) / 1e6, latency:percentile(99) / 1e6
  io.write(line:format(summary.requests, summary.duration / 1e6, half, most, all))
end
