"""Large results: a result that is too large for a model is kept, shown in part, and read piece by piece.

Parts:
  read: paths, searches and pages of a kept result; awaits nothing
  gateway: keeps results, and makes what is shown of them
  meta_tool: `read_result`
  kept_reads: what is noted when a kept result is read
  storage: the rows in the database
  config: the section `results`

Must not import: see `aggregator.FEATURES`: each part stands on the layer of its place there
(tests/test_layers.py).
"""
