"""Search by meaning, if the operator enables it: embeddings of texts from small models, beside the keywords.

The models are all-MiniLM-L6-v2, for English, and multilingual-e5-small; installed packages have their weights, and
numpy alone runs them. Nothing is downloaded. The method and its figures are in docs/what-models-see.md.

Terms:
  encoder: a model; it computes the vector of each text
  vector: 384 numbers, of length 1; the product of two says how similar the texts are, from -1 to 1
  piece: a word, or part of a word, in a model's vocabulary; see `pieces.py` and `unigram.py`
  similarity: a number from -1 to 1 by which a tool fits a query, whatever its words
  likeness: the similarities of all tools to a query by one model, and how much they count
  spoken: the language of a request, as far as it matters; see `spoken.py`
  digest: SHA-256 of the text of a tool that a model reads; the key of the vector cache

Entry points: `index.MeaningIndex`, with an encoder of `installed.open_encoder`, and `merge.merge_hits`.
numpy is imported with `encoder`, `index` and `spoken`, and these if a model is used: it is an extra.
Must not import: `gateway` and above; tests/test_layers.py holds that.
"""
