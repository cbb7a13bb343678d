"""Commands about accounts at servers: `aggregator connect`, and `aggregator connections list` and `revoke`.

They work on the database, beside a running gateway or without one; a running one learns of it within a second.

Terms:
  connection: a grant as people see it: whose account the aggregator uses at a server
  owner: whose calls are made with it: an agent's, a person's, all, or the aggregator's own
  paste: to bring the answer of the issuer here by hand, where its browser is on another machine

Entry points: `commands.connections_app`, `connect.run`.
Must not import: other commands; tests/test_layers.py holds that.
"""
