"""Notices to operators, by webhook and program.

Parts:
  send: bounded queues, formats and deliveries
  app: makes notices of events of the running program
  cli: `aggregator notify`
  config, receivers: the section `notify`

Must not import: see `aggregator.FEATURES`: each part stands on the layer of its place there
(tests/test_layers.py).
"""
