"""The policy explained to its authors: a possible decision, an agent's view, the effects of an edit.

Law: nothing here is called, charged, written or put into force.

Terms:
  explained call: the decision on one agent, tool and arguments, with every matching rule; see `explained_call.py`
  visible list: the tools, resources and prompts that one agent has; see `playground.py`
  edit: a policy file in another text than the one in force; see `policy/compare/edits.py`

Entry point: `playground.Playground`.
Must not import: the dispatcher, which has it, or any frontend; tests/test_layers.py holds that.
"""
