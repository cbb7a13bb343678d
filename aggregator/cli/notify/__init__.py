"""The command `aggregator notify`, which shows that receivers of notices can be reached.

Terms:
  notice: one thing that a person is told, such as that a call waits for an approval
  receiver: a webhook or a program of `notify` in the configuration
  trial: a notice that says no more than that it arrived

Entry point: `commands.notify_app`. `trial` does the work; it is imported when the command runs, and makes one attempt
for each receiver, without retries.
Must not import: anything slow in `commands`, so that `--help` does not wait for it; tests/test_layers.py holds that.
"""
