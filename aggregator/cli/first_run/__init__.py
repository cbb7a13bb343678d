"""First steps: `aggregator` without a command, `aggregator init` and shell completion.

A user without a configuration gets a few lines of instructions, and an offer to import the servers of other programs.

Terms:
  welcome: the lines that `aggregator` prints on a terminal without a configuration
  offer: a question whose answer may be yes only at a terminal
  completion: the script by which a shell completes commands, options and names of servers

Entry point: `commands.first_run_app`.
Must not import: at the top of `commands`, anything slow (tests/test_layers.py).
"""
