"""Several processes that share one database and serve as one: the replicas of a group.

Terms:
  replica: one process of a group
  group: the replicas that have one name on one database; `replicas.group`
  slot: a small number that no other living replica of the group has
  hop: one signed HTTP request from a replica to the peer listener of another
  peer listener: the socket at which a replica takes hops; never the public one
  group clock: the database's clock, as each replica estimates it

Entry point: `replication.Replication`.
Must not import: the packages above it, so that each of them can use it; tests/test_layers.py holds that.
"""
