"""The tables of parts of the schema, which `tables` puts together. Every change here is a migration too.

A table stands beside those it is used with; columns that hold secrets are named `sealed`.

Terms:
  metadata: the collection of all tables, which migrations are compared with
  vault: the tables of grants, encrypted
  answers: the tables of kept results and of the vectors of tools

Entry point: `storage.tables`, which names every table.
Must not import: anything of `storage`; tests/test_layers.py holds that.
"""
