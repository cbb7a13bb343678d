"""Ranked search over tools, by keywords and, where the operator enables it, by vectors.

One index serves all agents: an agent's view of it is a mask. Hidden tools do not affect its answer, not even the rarity
of a term. The method and its figures are in docs/what-models-see.md.

Terms:
  document: an indexed tool: its terms with their impacts; see `document.py`
  impact: how much a term says about a tool, from 1 to 255
  slot: the number of a tool in the index; see `postings.py`
  posting: the slots of the tools that have one term
  visible tools: the index with the mask of one agent; see `visible.py`

Entry point: `index.SearchIndex`.
Must not import: `catalog.intent`, `catalog.catalog`, `gateway` and above; tests/test_layers.py holds that.
"""
