"""Requests of hosts that another replica has to answer: they go there by one hop, and its answer comes back.

Terms (docs/glossary.md):
  owner: the replica that holds what cannot move, such as a stream or a call that waits
  question: a request of ours to a host, such as an elicitation
  claims: what a hop says of the host beside its request: its agent and its key

Rule: no credential of a host goes from one replica to another.

Entry point: `Forwarder`. The other end is `frontends/hops/forwarded.py`.
Must not import: the frontends, which use it; tests/test_layers.py holds that.
"""
