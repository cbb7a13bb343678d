"""Flow rules: earlier reads of a conversation limit its later calls.

Parts:
  decide: labels and rules of the policy; awaits nothing
  compare, lint: flow rules in `policy diff` and `policy check`
  gateway: the labels of conversations, and the hook that decides about calls, reads and questions
  storage, tables: the rows in the database
  cli: `aggregator flow`

Must not import: see `aggregator.FEATURES`: each part stands on the layer of its place there
(tests/test_layers.py).
"""
