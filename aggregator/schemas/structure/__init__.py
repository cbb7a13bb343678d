"""The structure of schemas and values: dialects, references, sizes, and the bound on the work of a check.

Everything is computed from the schema alone, before a value is checked, or from the size of the value.

Terms:
  dialect: one of the five versions of JSON Schema; see `dialect.py`
  index: a schema read once, with the targets of its references; see `index.py`
  cost: the most work that a schema can make at each level of a value; see `cost.py`
  size: the values and characters on each level of a value; see `measure.py`

Entry point: `index.read` and `cost.Cost`.
Must not import: the other modules of `schemas` but `fault`; tests/test_layers.py holds that.
"""
