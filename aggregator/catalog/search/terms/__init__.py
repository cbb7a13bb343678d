"""Words: how texts are split into terms, stems, related words, translations, and distances between spellings.

Everything here is about the language of requests and tools, and nothing about one catalog. The tables stand in
`catalog/data`, each with its source and licence, and are read once.

Terms:
  term: the unit of search: the stem of a word, or one or two signs of a script without spaces; see `words.py`
  sign: one character of a script without spaces, such as Chinese
  mark: the number of a meaning with its kind: `*` action, `=` synonym, `~` subject; see `synonyms.py`
  four-gram: a run of four letters, to compare spellings; see `four_grams.py`

Entry point: `words.terms`.
Must not import: the other modules of `catalog`; tests/test_layers.py holds that.
"""
