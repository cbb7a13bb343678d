"""The notices of the program: its events, sent to receivers.

Terms:
  notice: one reported event (`aggregator/notify/send`)
  receiver: a webhook or a program
  program: a process run for a notice, in its own process group, with a time limit

Entry point: `events.NoticeEvents`, which `app/audit_events.py` and the call log report to; `programs.NoticePrograms`
runs
the programs.
Must not import: `cli`, `adapters`, `frontends`; tests/test_layers.py holds that.
"""
