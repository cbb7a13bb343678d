"""One file per change of the schema, `rNNNN_WHAT.py`; none is edited or removed after its release."""
