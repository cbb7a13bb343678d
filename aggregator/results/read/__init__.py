"""Large results: the beginning shown to a model, and the pages that it reads after it.

A text is cut at an element of its structure: an array item, a record, a paragraph, a line; other packages keep the
rest.

Terms:
  document: a whole result as a text with its structured value, that is read by offset, path or words
  element: a unit of a text: array items, members, records, lines, paragraphs
  page: a part of a document from one offset to the next
  preview: the first page, which is in the answer of the call

Entry point: `shorten` (results/read/shorten.py) and `read_page` (results/read/read.py).
Must not import: the services beside it; tests/test_layers.py holds that.
"""
