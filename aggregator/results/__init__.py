"""Large results: the beginning that a model is shown, and the pages that it reads on.

A text is cut at an element of its structure: an array item, a record, a paragraph, a line; the rest is kept elsewhere.

Terms:
  document: a whole result as a text with its structured value, that is read by offset, path or words
  element: what a text is made of: array items, members, records, lines, paragraphs
  page: a part of a document from one offset to the next
  preview: the first page, which stands in the answer of the call

Entry point: `shorten` (results/shorten.py) and `read_page` (results/read.py).
Must not import: the services beside it; tests/test_layers.py holds that.
"""
