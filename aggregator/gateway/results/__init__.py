"""Large results on their way to a host: shown in part, and kept whole for the caller to read on.

Terms:
  preview: the beginning of a result, which stands in the answer in place of the whole
  handle: the secret by which a caller reads a kept result; the database has a digest of it alone
  owner: the caller that a result was made for, with one key or one person's tokens
  bounds: the largest page that may be read of a kept result
  seal: encrypt a result with a key made of its handle and its owner

Entry point: `LargeResults` (showing.py), a step of the pipeline, and `ResultKeeper` (keeper.py), which reads on.
Must not import: the rest of the gateway; tests/test_layers.py holds that.
"""
