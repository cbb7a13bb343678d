"""The catalog for people: tools as agents and models see them, what lists cost, who may call what.

Terms:
  browser: the part that answers the console's questions about tools; nothing is called by it
  level: how much of a tool a model is shown, from 1 to 3 (`catalog.describe.levels`)
  list cost: the estimated tokens of all tools that an agent may call, and of those in its list

Rule: every text and decision comes from the part that hosts are answered by; none is made here a second time.

Entry point: `tools.ToolBrowser`.
Must not import: `gateway.dispatcher` and above; tests/test_layers.py holds that.
"""
