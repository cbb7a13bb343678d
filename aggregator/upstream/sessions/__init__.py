"""The sessions with an upstream: connecting, negotiation of the era, isolation, and the back channel to hosts.

Terms:
  session: an open connection after its handshake, or after the answer to `server/discover`
  era: handshake (up to 2025-11-25) or modern (2026-07-28)
  isolated session: one beside the shared session, for callers that cannot use that
  back channel: requests, progress and log messages of a server to the host whose call is running
  clients: the hosts that this process serves, as a server sees them on a connection

Entry point: `connect.Connector` opens sessions; `isolation.IsolatedSessions` chooses one for a caller.

Must not import: lists, health, the upstream itself; tests/test_layers.py holds that.
"""
