"""The tables that the replicas of a group share, besides those that one process uses too.

Terms (docs/glossary.md):
  group: the replicas of one name on one database
  change: what replicas tell each other through the database
  lease: the right of one replica alone to do something, for a time
  shared key: the key that the replicas of a group seal and sign with

Entry point: `ReplicaRows`, `ChangeLog`, `Leases` and `SharedKeys`, which `storage.opening.Database` holds.
Must not import: the parts of `storage` beside it; tests/test_layers.py holds that.
"""
