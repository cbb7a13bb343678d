"""Texts about tools for models: the first sentence of a description, parameters, compact schemas.

Every text is bounded in columns or characters, and depends on the tool alone: equal records give equal bytes, for every
agent.

Terms:
  level: the amount of detail: one line, the main parameters, or the whole schema; see `levels.py`
  first sentence: the purpose of a tool, from any form of its description; see `first_sentence.py`
  compact schema: an input schema without repetitions; see `compact_schema.py`
  column: the unit of width; wide characters count as two; see `markdown.py`

Entry point: `levels.level1`, `level2` and `level3`.
Must not import: `catalog.intent` and the modules of `catalog` above it; tests/test_layers.py holds that.
"""
