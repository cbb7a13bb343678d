"""Accounts at upstream servers: OAuth tokens for a user, an agent or the gateway.

Parts:
  oauth: the OAuth 2.1 client; knows no database
  grants: tokens, their renewal and their sealing
  app: the grants of this process
  storage, tables: the rows in the database
  ask, connect_links: the question to a user whose account is missing
  connect: the pages on which users connect their accounts
  console, cli, doctor: the console page, `aggregator connect` and `connections`, the checks of `doctor`
  config: the section `auth` of a server

Must not import: see `aggregator.FEATURES`: each part stands on the layer of its place there
(tests/test_layers.py).
"""
