"""Notices: as real receivers get them."""
