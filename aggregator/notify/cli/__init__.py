"""The command `aggregator notify`, which tests whether receivers of notices are reachable.

Terms:
  notice: one reported event, such as a call that waits for an approval
  receiver: a webhook or a program of `notify` in the configuration
  trial: a notice without any other content

Entry point: `commands.notify_app`. `trial` does the work; it is imported when the command runs, and makes one attempt
for each receiver, without retries.
Must not import: anything slow in `commands`, so that `--help` does not wait for it; tests/test_layers.py holds that.
"""
