"""Characters and letters: equal spellings, invisible characters, and the cost of a text for a model.

Terms:
  caseless: without the difference of capitals, for comparing names.
  invisible: a character that is not displayed, or changes the display of others, such as a zero-width space.
  token: the unit that a model reads and bills by; estimated here without a tokenizer.
  exact field: a field of a definition that is compared and not read, so that no character of it may change.

Entry point: `error_text.error_text` for exceptions, `invisible.cleaned` for texts, `invisible.changed_texts` for JSON
values, `cut` for texts that
are cut, `caseless` for names, and `tokens.estimate`.
Must not import: anything of the package but the standard library (tests/test_layers.py). Nothing here keeps state.

Source: the Unicode character database, and the scripts that need joiners.
"""
