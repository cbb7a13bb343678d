"""The tables of parts of the schema, which `tables` puts together.

Terms:
  metadata: the collection of all tables, which migrations are compared with
  vault: the tables of grants, encrypted
  answers: the tables of kept results and of the vectors of tools

Entry point: `storage.tables`, which names every table.
Must not import: anything of `storage`; tests/test_layers.py holds that.
"""
