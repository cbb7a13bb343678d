"""Large results on their way to a host: shown in part, and kept whole for the caller to read on.

Terms:
  preview: the beginning of a result, which replaces the whole in the answer
  handle: the secret by which a caller reads a kept result; the database stores only its digest
  owner: the caller that a result belongs to, with one key or one user's tokens
  bounds: the largest page that may be read of a kept result
  seal: encrypt a result with a key made of its handle and its owner

Entry point: `LargeResults` (showing.py), a step of the pipeline, and `ResultKeeper` (keeper.py), which reads on.
Must not import: the rest of the gateway; tests/test_layers.py holds that.
"""
