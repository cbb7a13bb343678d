"""Pins of the running program: read before anything is listed, written when servers change, kept in step with others.

Terms (docs/glossary.md):
  pin, held, lock file: see `aggregator.pins`
  baseline: what was pinned as it was first seen
  news: what a judged list has that the database has not, or what it needs of the database

Entry point: `PinSync`, which `build_app` makes where there is a database that is written, or a lock file.
Must not import: other modules of the app, which give it what it needs; tests/test_layers.py holds that.
Rule: no list and no call waits for more than a bounded time for anything here.
"""
