"""Meta tools: the few tools of the gateway itself, by which a model finds, reads and calls all other tools.

There is one file for each tool; `registry.py` lists them. A call through a meta tool passes the same
pipeline as a direct call, so that no policy can be avoided by it.

Terms:
  meta tool: a tool that the gateway answers itself
  inner call: the call that `call_tool` or `read_tool` carries in its arguments
  exposure: whether a list holds all tools of an agent, or the meta tools and the pinned tools
  level: the detail of a description, from 1 (one line) to 3 (JSON Schema)

Entry point: `registry.MetaTools` for calls, `exposure.Exposure` for lists.
Must not import: `reads`, `dispatcher.py`, nor anything above the gateway; tests/test_layers.py holds that.
"""
