"""The command `aggregator doctor`: findings printed as text, or as JSON, and the exit code.

The checks themselves are in `aggregator.doctor`, which prints nothing.

Terms:
  finding: one detected problem, with the command that fixes it
  scope: the host and the agent whose view is checked
  mend: a safe change that `--fix` makes

Entry point: `commands.doctor_app`.
Must not import: at the top of `commands`, anything slow (tests/test_layers.py).

Exit codes are the same as for `aggregator check`: 0 for no problem, 1 for anything that needs a user.
"""
