"""The command `aggregator doctor`: findings printed for people, or as JSON, and the exit code.

The checks themselves are in `aggregator.doctor`, which prints nothing.

Terms:
  finding: one thing that was found, with the command that mends it
  scope: the host and the agent whose eye is taken
  mend: a safe change that `--fix` makes

Entry point: `commands.doctor_app`.
Must not import: at the top of `commands`, anything slow (tests/test_layers.py).

Exit codes are those of `aggregator check`: 0 for nothing wrong, 1 for anything that needs a person.
"""
