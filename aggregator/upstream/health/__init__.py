"""The health of a connected upstream: whether it answers, how fast, and when calls are refused for a while.

Terms:
  health check: a ping, or `server/discover`, to a server that was silent for long
  circuit breaker: refuses calls to a server that does not answer, until a trial is answered
  trial: the one request that an open circuit lets through
  latency: times of the calls of the last minutes, by quantile

Entry point: `health.Health`.

Must not import: the upstream itself, or anything above; tests/test_layers.py holds that.
"""
