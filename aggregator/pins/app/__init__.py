"""Pins of the running program: read before anything is listed, written when servers change, synchronised with others.

Terms (docs/glossary.md):
  pin, held, lock file: see `aggregator.pins.decide`
  baseline: the definitions pinned at first sight
  news: the parts of a judged list that the database lacks, or that the list needs from it

Entry point: `PinSync`, which `build_app` makes if there is a writable database, or a lock file.
Must not import: other modules of the app, which pass it its dependencies; tests/test_layers.py holds that.
Rule: no list and no call waits for more than a bounded time for anything here.
"""
