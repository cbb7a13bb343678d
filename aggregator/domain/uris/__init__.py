"""URIs and addresses, compared so that no spelling of one changes a decision.

Terms:
  spelling: one of several ways to write the same URI.
  resolved: the spelling that a policy compares.
  exposed: the URI under which a host sees a resource, wrapped if two servers have the same one.
  host: the authority part of a URI or the `Host` header, as browsers read it.
  link: a URI inside the content of a result.

Entry point: `spellings.resolved` for policies, `exposed` for hosts.
Must not import: anything of the package outside of `domain` (tests/test_layers.py). Nothing here resolves a name over
the network.
"""
