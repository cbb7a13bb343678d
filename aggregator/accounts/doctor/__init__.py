"""The checks of `doctor` on accounts.

Entry points: `gather` reads facts, `checks` makes findings of them.
Must not import: see `aggregator.FEATURES`: each part stands on the layer of its place there
(tests/test_layers.py).
"""
