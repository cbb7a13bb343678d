"""The tools that a chat message asks for, found by rules and keywords, without a model.

A message is read once (`text.py`), names and keywords are looked up in it, and the rules are tried in their order
(`rules.py`). English and Chinese have their phrases in `intent.txt`; requests by an identifier, and to a server, are
read in German, French, Spanish, Japanese and Korean too (`languages.py`, a row a language). The last rules before the
keywords weigh a whole sentence: `sentences.py` in English, `signs.py` in Chinese, `abroad.py` in the others. The method
and its figures are in docs/what-models-see.md.

Terms:
  rule: one form in which a message can ask for a tool, from `handle` (@name) to `keyword`
  keyword: a word of the configuration that points to a server
  name position: a place where a name may stand, behind a verb for example; see `slots.py`
  phrasing: the words around a name that tell a request from a refusal or a report; see `phrasing.py`

Entry point: `intent.IntentMatcher`.
Must not import: `catalog.catalog`, `catalog.resources`, `gateway` and above; tests/test_layers.py holds that.
"""
