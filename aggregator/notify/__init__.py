"""Notices to people outside: webhooks and programs that are told what needs a person.

Terms:
  notice: one thing that is told: an approval waits, a server is down or back, tools changed, a limit was reached
  receiver: who is told: a webhook or a program, with a queue of its own
  delivery: one notice handed to one receiver, in as many attempts as it takes, within bounds
  format: the form of a message: plain JSON, Slack's or Microsoft Teams'

Law: telling never waits and never raises: a notice is put into bounded queues, and tasks of their own send it.
Law: no notice holds an argument or a result of a call, and no secret.

Entry point: `notifier.Notifier`.
Must not import: aiohttp outside of `webhook`, which is loaded with the first notice for one; the other services,
`gateway` and all above it (tests/test_layers.py). How a program is run is given by the application.
"""
