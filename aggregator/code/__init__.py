"""Code mode: a program of a model that calls tools, in a sandbox.

Parts:
  sandbox: runs a program within bounds
  programs: the calls that a program makes
  meta_tool: `run_code`
  config: the section `code`

Must not import: see `aggregator.FEATURES`: each part stands on the layer of its place there
(tests/test_layers.py).
"""
