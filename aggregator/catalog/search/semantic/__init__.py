"""Search by meaning, where the operator enables it: vectors of texts, made by a small model, beside the keywords.

The model is all-MiniLM-L6-v2, whose weights an installed package has; numpy alone runs it. Nothing is fetched. The
method and its figures are in docs/what-models-see.md.

Terms:
  encoder: the model; it makes a vector of each text
  vector: 384 numbers, of length 1; the product of two says how similar the texts are, from -1 to 1
  piece: a word, or a part of one, that the model has a number for; see `pieces.py`
  likeness: how similar a tool is to a query
  digest: SHA-256 of the text of a tool that the model reads; vectors are kept by it

Entry point: `index.MeaningIndex`, with an encoder of `installed.open_encoder`.
numpy is imported with `encoder` and `index`, and these where the model is used: it is an extra.
Must not import: `gateway` and above; tests/test_layers.py holds that.
"""
