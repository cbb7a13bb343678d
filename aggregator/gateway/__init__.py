"""The gateway: every method that a host may call, from the request to the result, as plain JSON objects.

`dispatcher.py` only dispatches. `calls/` runs `tools/call`, `ask/` sends questions to the host, `reads/` serves
resources, prompts and completion, `views/` shows each agent its part of the catalog, `meta/` has the tools of the
gateway itself.

Terms:
  host: the MCP client on the other side of a frontend
  request: one JSON-RPC request of a host, with its channel for notifications
  view: the visible part of the catalog for one agent under one rulebook
  call record: everything that the audit, spans and metrics learn about one request
  admission: the limits on sessions, streams and requests at one time

Entry point: `dispatcher.Dispatcher.answer`, called by the frontends; `app/build.py` constructs the gateway.
Must not import: `frontends`, `app`, `cli`, `adapters`; tests/test_layers.py holds that, between the subpackages too.
"""
