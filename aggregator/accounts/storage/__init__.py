"""The vault: the tokens for upstream servers and the credentials that obtain them, encrypted.

Nothing here encrypts or decrypts: callers pass sealed values, and the key is not in the database.

Terms (docs/glossary.md):
  grant: the tokens for one server from one authorization server on behalf of one owner
  claim: the right of one process to get new tokens for a grant, for some seconds
  sealed: encrypted for one row of one table, with the vault key

Entry point: `Vault`, which `storage.opening.Database` holds.
Must not import: the parts of `storage` beside it; tests/test_layers.py holds that.
"""
