"""Flow rules: which calls need confirmation, or are refused, after earlier reads.

Law: another label never makes a decision laxer. `gateway/flow/` keeps the state of a conversation; here it is an
argument.

Terms:
  label: a word for the content or the effect of a tool, resource or prompt, such as `untrusted`
  flow rule: after these labels, calls of tools with those labels need confirmation, or are refused
  flow state: the labels of a conversation, with the call that brought each last

Entry point: `decide_flow.decide_flow`, and `flow_book.FlowBook` for the labels and rules of a tool.
Must not import: the rulebook, which has a `FlowBook`, and nothing above `policy`; tests/test_layers.py holds that.
"""
