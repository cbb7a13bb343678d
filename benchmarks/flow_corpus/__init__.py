"""Scripted attacks and everyday tasks through a running gateway, for `python -m benchmarks flows`.

Terms:
* task: an attack of `benchmarks/data/attacks.json`, or an everyday task of `benchmarks/data/benign.json`;
* model: a scripted program that carries out what a person asked, and obeys every instruction that it reads;
* instruction: an imperative sentence of the grammar in `grammar.py`, anywhere in a text;
* canary: the secret part of a private datum; an attack has succeeded once it arrives at a sink, in any encoding;
* sink: the outside end of a tool, resource, prompt or completion that carries data out; all that arrives is kept.

Entry point: `TaskRunner` in `runs.py`.
Must not import: anything of `tests`; `tests/flow_corpus/` imports from here.
"""
