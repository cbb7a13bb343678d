"""Checks of a whole installation from the agent's view: the tools that a model sees through a host, and the obstacles.

Terms:
  finding: one result, good or bad: one sentence, and one command that fixes it
  check: a function that examines one part and yields findings
  mend: a change that is safe to make without asking, such as the permissions of a file

Law: a check changes nothing, ends within its time limit, and no finding holds a secret.

Entry point: `examine.examine`.
Must not import: `cli` (tests/test_layers.py).
"""
