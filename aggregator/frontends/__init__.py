"""Frontends: the wires over which hosts reach the gateway: stdio, Streamable HTTP, SSE, and `/v1` without MCP.

A frontend knows its wire: framing, headers, sessions, limits. It authenticates the sender, passes each request to
`Dispatcher.answer`, and writes the result. Nothing is decided here about tools or policies.

Terms:
  frontend: one wire, named `stdio`, `http`, `sse` or `v1` in the audit and the metrics
  channel: the way of notifications and requests to the host during one of its requests
  session: what one handshake over HTTP began
  slot: one place of admission control, held while a request or a session lasts

Entry point: `server.WebServer` with `server.serve_web`, and `stdio.serve_stdio`.
Must not import: `app`, `cli`, `adapters`; tests/test_layers.py holds that.
"""
