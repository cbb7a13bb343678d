"""The upstream servers: one `Upstream` for each, over one of four transports, run by one supervisor.

An upstream connects, negotiates the era, reads its lists, sends calls, and connects again when the connection ends.

Terms:
  upstream: one configured server with its state, its connection, its lists and its health
  shared connection: the connection that all callers use, unless `isolation` or the era wants one of their own
  session: what one handshake began on a connection; `sessions/`
  state: one of the states of the table in `lifecycle/states.py`; moved by the reconnect loop alone
  caller: the host behind a running call, which an upstream may send requests to

Entry point: `supervisor.Supervisor`, whose `upstreams` have `call`.

Must not import: the other services (`policy`, `catalog`, `audit`, ...) and anything above; tests/test_layers.py holds
that, and the rows of the subpackages (`INNER_LAYERS`).
"""
