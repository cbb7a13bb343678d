"""The notices of the program: what happens in it, as receivers outside are told.

Terms:
  notice: one thing that a person is told (`aggregator/notify`)
  receiver: a webhook or a program that is told
  program: what is run for a notice, in a process group of its own, within a time

Entry point: `events.NoticeEvents`, which `app/audit_events.py` and the call log tell; `programs.NoticePrograms` runs
the programs.
Must not import: `cli`, `adapters`, `frontends`; tests/test_layers.py holds that.
"""
