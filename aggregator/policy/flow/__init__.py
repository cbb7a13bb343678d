"""Flow rules: which calls are asked about, or refused, after something was read.

Law: a label more never makes a decision laxer. The state of a conversation is kept elsewhere (`gateway/flow/`); here it
is an argument.

Terms:
  label: a word for what a tool, resource or prompt brings or does, such as `untrusted`
  flow rule: after these labels, calls of tools with those labels need a person, or are refused
  flow state: the labels of a conversation, with the call that brought each last

Entry point: `decide_flow.decide_flow`, and `flow_book.FlowBook` for the labels and rules of a tool.
Must not import: the rulebook, which has a `FlowBook`, and nothing above `policy`; tests/test_layers.py holds that.
"""
