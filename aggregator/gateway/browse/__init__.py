"""The catalog for users: tools in the form for agents and models, the cost of lists, and the rights to call.

Terms:
  browser: the part that answers the console's questions about tools; nothing is called by it
  level: the amount of detail about a tool, from 1 to 3 (`catalog.describe.levels`)
  list cost: the estimated tokens of all tools that an agent may call, and of those in its list

Rule: every text and decision comes from the part that answers hosts; none is made here a second time.

Entry point: `tools.ToolBrowser`.
Must not import: `gateway.dispatcher` and above; tests/test_layers.py holds that.
"""
