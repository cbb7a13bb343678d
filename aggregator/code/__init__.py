"""The sandbox of code mode: programs that a model writes run in it, apart from everything else.

A program runs in a process of its own, in the interpreter of `pydantic-monty`, which knows no files, no network and no
environment. It reaches the rest of the world through the functions that it is given, and by nothing else. Texts alone
cross the border, as JSON, so that no value of a program costs the event loop more than its length.

Terms:
  program: the Python code of one call of `run_code`
  sandbox: the interpreter, and the process that it runs in
  prelude: the definitions that a program finds when it begins
  turn: what a program runs between two calls of functions
  outcome: what a program printed, with its value or the reason why it ended

Entry point: `sandbox.Sandbox`.
Must not import: the gateway; what a function does is handed in. tests/test_layers.py holds that.
"""
