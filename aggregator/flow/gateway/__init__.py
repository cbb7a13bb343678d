"""Flow labels at work: the kinds of data that a conversation has read, and the calls allowed after that.

Terms (docs/glossary.md):
  label: a kind of data that results bring, or that calls carry away, such as `untrusted`, `private`, `outward`
  scope: one agent in one conversation: a session, a trace, or all that comes with one key
  source: the call whose result brought a label to a scope

Entry points: `guard.FlowGuard` for calls, `questions.QuestionFlow` for the servers' questions during one;
`states.FlowStates`
has the labels, by the rules of `scopes`.
Must not import: calls, reads, or other parts of the gateway that ask it; tests/test_layers.py holds that.
Law: a label is in the state of its scope before the host gets the result that brought it.
"""
