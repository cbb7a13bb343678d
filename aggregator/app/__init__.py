"""The application: every part of the program constructed once and run together.

A command builds an `App` from a configuration, enters `running`, and opens the frontends it needs on the gateway. The
modules beside `build.py` keep parts in step with what lies outside them: files, the database, telemetry.

Terms:
  app: all parts of one process for one configuration, without frontends
  reload: a changed configuration or policy file that comes into force while the program runs
  drain: the end of running requests before the process ends
  event: an entry of the audit log that is no call, such as a changed upstream state

Entry point: `build.build_app`; it returns an `app.App`.
Must not import: `cli`, `adapters`, `frontends`; tests/test_layers.py holds that.
"""
