"""The console: web pages at `/console`, and the same data as JSON.

Pages read the state of other parts, and act through the same pipeline as every call; they decide nothing themselves.

Terms:
  person: a signed-in user, or the holder of an API key with a console role
  console role: the rights of a user: viewer, approver, operator, each including the ones before it
  page: one module of `pages`; it turns a request into plain data, which a template renders as HTML
  parts: the services of the program that pages use

Entry point: `entry.Console`, which loads the rest at the first request.

Must not import: `aggregator.frontends.server`, which is above it, and `aggregator.frontends.v1`, which is beside it.
Held by tests/test_layers.py.
"""
