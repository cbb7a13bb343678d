"""Commands about accounts at servers: `aggregator connect`, and `aggregator connections list` and `revoke`.

They work on the database, beside a running gateway or without one; a running one learns of it within a second.

Terms:
  connection: a grant in the words of users: an account that the aggregator uses at a server
  owner: the callers that use it: an agent, a user, all, or the aggregator itself
  paste: bring the answer of the issuer here by hand, if its browser is on another machine

Entry points: `commands.connections_app`, `connect.run`.
Must not import: other commands; tests/test_layers.py holds that.
"""
