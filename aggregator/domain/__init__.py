"""Plain values and errors that every layer may use, and the functions that need nothing but these values.

Terms:
  principal: the agent behind a request, with its key, tenant and roles.
  tool call: one `tools/call` from a host; resolved, it knows its tool and upstream.
  call record: the facts about one call, filled while it runs and closed once.
  decision: whether something is allowed, with the rule, its source and the reason.
  error: of the host, the upstream or the operator, by fault; any other is a bug.

Entry point: none; `errors.to_wire` and `errors.to_tool_result` are the one place that puts errors on the wire.
Must not import: anything of the package outside of `domain`: it is the lowest layer (tests/test_layers.py). Nothing
here opens a file or a connection.
"""
