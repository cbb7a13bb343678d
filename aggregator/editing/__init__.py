"""Edits of JSON, TOML and YAML files that people wrote: what an edit is not about stays byte for byte.

Terms:
  document: the text of one file with the values in it, and a way to change single values
  path: the keys and indexes that lead to a value, from the root of a document
  backup: a copy of a file as it was before an edit

Law: comments, order, indentation, quotes and line ends outside of the edited value are kept.
Law: a file is replaced at once or not at all, and only if it holds what was read.

Entry points: `document.open_document`, `replace.replace_file`.
Must not import: anything of the package but `domain` (tests/test_layers.py).
"""
