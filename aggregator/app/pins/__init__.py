"""Pins of the running program: read before anything is listed, written when servers change, kept in step with others.

Terms (docs/glossary.md):
  pin, baseline, held, lock file: see `aggregator.pins`
  news: what a judged list has that the database has not, or what it needs of the database

Entry point: `PinSync`, which `build_app` makes where there is a database that is written, or a lock file.
Must not import: other modules of the app, which give it what it needs.
"""
