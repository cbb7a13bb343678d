"""Kept results: the parts of results that were too large for a model, encrypted, until they expire.

Nothing here encrypts or decrypts: callers pass sealed values, and the key is not in the database.

Terms:
  handle: the secret by which a model reads a kept result; the database has a digest of it
  owner: a digest of the caller that a result belongs to
  part: up to some hundred KiB of a sealed result, one row

Entry point: `KeptResults`, which `storage.opening.Database` holds.
Must not import: the parts of `storage` beside it; tests/test_layers.py holds that.
"""
