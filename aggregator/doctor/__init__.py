"""Checks of a whole installation from the agent's eye: what a model would see through a host, and what is in the way.

Terms:
  finding: one thing that was found, good or bad: one sentence, and one command that mends it
  check: a function that looks at one part and yields findings
  mend: a change that is safe to make without asking, such as the permissions of a file

Law: a check changes nothing, ends within its time limit, and no finding holds a secret.

Entry point: `examine.examine`.
Must not import: `cli` (tests/test_layers.py).
"""
