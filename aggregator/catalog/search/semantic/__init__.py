"""Search by meaning, if the operator enables it: embeddings of texts from a small model, beside the keywords.

The model is all-MiniLM-L6-v2; an installed package has its weights, and numpy alone runs it. Nothing is downloaded. The
method and its figures are in docs/what-models-see.md.

Terms:
  encoder: the model; it computes the vector of each text
  vector: 384 numbers, of length 1; the product of two says how similar the texts are, from -1 to 1
  piece: a word, or part of a word, in the model's vocabulary; see `pieces.py`
  similarity: a number from -1 to 1 by which a tool fits a query, whatever its words
  digest: SHA-256 of the text of a tool that the model reads; the key of the vector cache

Entry point: `index.MeaningIndex`, with an encoder of `installed.open_encoder`.
numpy is imported with `encoder` and `index`, and these where the model is used: it is an extra.
Must not import: `gateway` and above; tests/test_layers.py holds that.
"""
