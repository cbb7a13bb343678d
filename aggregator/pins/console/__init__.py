"""The console's pages on pins.

Entry point: `page.PinsPage`.
Must not import: see `aggregator.FEATURES`: each part stands on the layer of its place there
(tests/test_layers.py).
"""
