"""`aggregator flow`: shows the kinds of data that conversations have read, and clears them.

Terms (docs/glossary.md):
  flow label: a kind of data that results bring to a conversation; flow rules of the policies refer to it
  scope: a session, a trace, or all calls with one key; each has its labels
  clear: forget the reads before now, in all scopes of an agent or in one
  source: the call whose result brought a label last

Entry point: `commands.flow_app`.
Must not import: the gateway, which reads the commands' rows from the database; tests/test_layers.py holds that.
"""
