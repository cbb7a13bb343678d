"""Intent: which tools a chat message asks for, if any.

Parts:
  match: rules and words; awaits nothing
  meta_tool: `match_intent`

Must not import: see `aggregator.FEATURES`: each part stands on the layer of its place there
(tests/test_layers.py).
"""
