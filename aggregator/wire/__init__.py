"""JSON-RPC 2.0 as bytes, towards hosts and towards upstreams: what frontends and transports have in common.

The package knows JSON-RPC, newline-delimited streams, server-sent events and the HTTP headers of MCP. It knows no host,
no upstream and nearly no method of MCP.

Terms:
  message: one decoded JSON-RPC request, notification, result or error; `message.py` is the only reader of its members
  peer: one end of a duplex connection; mints request ids, matches answers to them, runs the requests of the other end
  channel: the messages that belong to one running request of the other end, sent before its answer
  values: the numbers, strings, arrays and objects in a JSON text, counted before any of them is built

Entry point: `peer.Peer` for duplex connections; `codec.decode` and `codec.encode` for everything else.

Must not import: anything above the ground layer, such as `gateway` or `upstream`; tests/test_layers.py holds that.
"""
