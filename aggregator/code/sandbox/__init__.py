"""The sandbox of code mode: programs that a model writes run in it, apart from everything else.

A program runs in a process of its own, in the interpreter of `pydantic-monty`, which knows no files, no network and no
environment. It reaches the rest of the world only through the functions passed to it. Texts alone cross the border, as
JSON, so that no value of a program costs the event loop more than its length.

Terms:
  program: the Python code of one call of `run_code`
  sandbox: the interpreter, and the process that it runs in
  prelude: the definitions that a program finds when it begins
  turn: the code a program runs between two function calls
  outcome: the printed text of a program, with its value or the reason of its failure

Entry point: `sandbox.Sandbox`.
Must not import: the gateway; callers supply the functions. tests/test_layers.py holds that.
"""
