"""Notices to operators: webhooks and programs that report events which need attention.

Terms:
  notice: one reported event: an approval waits, a server is down or back, tools changed, a limit was reached
  receiver: a webhook or a program, with its own queue
  delivery: one notice handed to one receiver, in several attempts if needed, within bounds
  format: the form of a message: plain JSON, Slack's or Microsoft Teams'

Law: notifying never waits and never raises: a notice goes into bounded queues, and separate tasks send it. Law: no
notice holds an argument or a result of a call, and no secret.

Entry point: `notifier.Notifier`.
Must not import: aiohttp outside of `webhook`, which is loaded with the first notice for one; the other services,
`gateway` and all above it (tests/test_layers.py). The application supplies the function that runs a program.
"""
