"""`aggregator flow`: shows which kinds of data conversations have read, and clears that.

Terms (docs/glossary.md):
  flow label: a kind of data that results bring to a conversation, as flow rules of the policies speak of it
  scope: a session, a trace, or all that comes with one key; for each, labels are kept
  clear: to forget what was read before now, in all scopes of an agent or in one
  source: the call whose result brought a label last

Entry point: `commands.flow_app`.
Must not import: the gateway, which heeds what the commands write into the database; tests/test_layers.py holds that.
"""
