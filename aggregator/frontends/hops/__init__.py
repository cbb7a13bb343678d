"""Answers to the other replicas of the group: requests that only the replica they reach can answer.

Terms (docs/glossary.md):
  hop: one signed request from a replica to another
  peer listener: the socket at which a replica answers hops; never the one for hosts
  change: what replicas tell each other through the database, where no answer is needed
  owner: the replica that holds what cannot move, such as a stream or a call that waits

Entry point: `HopListener`, to which other parts add the paths that they answer.
Must not import: the frontends beside it; tests/test_layers.py holds that.
"""
