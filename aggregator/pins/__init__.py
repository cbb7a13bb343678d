"""Pinned definitions: what a server may show is what an operator has approved.

Parts:
  decide: compares definitions and classes changes; awaits nothing
  gateway: the pins in force, and the judged lists
  app: reads and writes pins while the program runs
  storage, tables: the rows in the database
  cli: `aggregator pins`
  console: the pages on pins

Must not import: see `aggregator.FEATURES`: each part stands on the layer of its place there
(tests/test_layers.py).
"""
