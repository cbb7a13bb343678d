"""Replicas: several processes that share one database.

Parts:
  group: membership, leases, changes, shared counters and hops
  hop_listener: accepts hops of other replicas
  storage: the rows in the database
  config: the section `replicas`

Must not import: see `aggregator.FEATURES`: each part stands on the layer of its place there
(tests/test_layers.py).
"""
