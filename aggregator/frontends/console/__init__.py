"""The console: pages for people at `/console`, and the same as JSON.

Pages read what others made and act by the road that every call takes; they decide nothing of their own.

Terms:
  person: a human who is signed in, or the holder of an API key with a console role
  console role: what a person may do: viewer, approver, operator, each with what those before it may
  page: one module of `pages`; it turns a request into plain data, of which a template makes HTML
  parts: the services of the program that pages use

Entry point: `entry.Console`, which loads the rest when the first request comes.

Must not import: `aggregator.frontends.server`, which is above it, and `aggregator.frontends.v1`, which is beside it.
Held by tests/test_layers.py.
"""
