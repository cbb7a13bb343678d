"""Parts that many commands share: run an implementation, set up configuration and log, handle signals, print.

Terms:
  database settings: the URL of the database, whether the audit is on, and the key of its chain
  options: the values of the command line, which override the configuration at each reload
  operator: the user who runs the command, by their name in the audit

Entry point: `run_command.run` for a command, `setup.load_config` and `event_loop.run_loop` for its implementation,
`writer.say`, `screen.Screen` and `prompts` for its output.

Must not import: any other module of `aggregator.cli`, all of which are above it.
Held by tests/test_layers.py.
"""
