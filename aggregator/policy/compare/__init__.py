"""Comparison of two rulebooks: which agents gain or lose which tools, and by which line of which file.

Law: a tool set is a number with one bit for each tool, so that a rule is matched with all tools once and an agent's
decisions are a few operations on such numbers. A property test holds them to `decide`.

Terms:
  tool sets: the tools of one catalog as bits, with those that each pattern matches; see `tool_sets.py`
  decided tools: the tools that an agent is allowed, denied, and asked about; see `decided_tools.py`
  cause: the line that makes a change, added or removed; see `causes.py`
  flow changes: the labels and flow rules that differ, with the tools that get or lose a label; see `flow.py`
  edit: a policy file in another text than the one in force; see `edits.py`

Entry point: `diff.diff`, or `edits.try_edit` for a text that is no file yet.
Must not import: `policy.live`, which is built on it, and nothing above `policy`; tests/test_layers.py holds that.
"""
