"""Settings of what a model is given: large results, the search of tools, and programs that call tools.

Terms:
  result: the answer of one call of a tool
  search: the ranking of tools by the words, and where wanted the meaning, of a query
  program: Python text that a model writes, which calls tools and runs in a sandbox

Each module holds one pydantic model, a section of `aggregator.json`.

Entry point: `Config` (config/model.py), which has each section as a field.
Must not import: `config.model` and what stands above it; tests/test_layers.py holds that.
"""
