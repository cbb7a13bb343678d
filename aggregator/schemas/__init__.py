"""Checks of arguments and results against JSON Schema: what does not fit is told so that a model can mend it.

Law: a schema comes from a stranger. Nothing here fetches, and nothing here can be made to crash or to stall.
"""
