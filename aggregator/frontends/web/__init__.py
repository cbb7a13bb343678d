"""The web frontends: Streamable HTTP and SSE, with the guard, limits and sessions that they share.

Every request passes the guard (`host_guard.py`) before anything else reads it. The HTTP server below is uvicorn, whose
connections are bounded by `connection_limits.py`. `server.py`, one level up, routes paths to these frontends.

Terms:
  guard: the check of `Host` and `Origin`, which also finds the source of a request
  exchange: one HTTP request, answered by JSON or by an event stream
  standing stream: the stream of a session for messages that belong to no request
  body limit: the largest message that is read

Entry point: `streamable_http.StreamableHttpFrontend` and `sse.SseFrontend`, for authenticated requests.
Must not import: `server`, `stdio`, `v1`, nor anything above the frontends; tests/test_layers.py holds that.
"""
