"""The mending of schemas for model APIs, and the reading of arguments in their mended form.

Entry point: `mend.mend`.
"""
