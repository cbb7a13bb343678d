"""Large results: a result that is too large for a model is kept, shown in part, and read piece by piece.

Parts:
  read: paths, searches and pages of a kept result; awaits nothing
  gateway: keeps results, and shortens them for models
  meta_tool: `read_result`
  kept_reads: tells the hooks of reads of kept results
  storage: the rows in the database
  config: the section `results`

Must not import: see `aggregator.FEATURES`: each part stands on the layer of its place there
(tests/test_layers.py).
"""
