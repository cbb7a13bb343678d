"""The audit log of a running gateway: every call is a row, written shortly after the call and never in its way.

Terms:
  call record: the record of a closed call, `aggregator.domain.call_record.CallRecord`; one row each.
  event: an entry about something other than a call, such as a reload of the policies.
  capture: the stored part of arguments and results, redacted and cut to a bounded length.
  writer: the one task that puts rows into the database, many in one transaction.
  spill: files beside the database for rows that it does not take.
  process mark: a locked file that tells others that the calls of this process continue.

Entry point: `log.AuditLog`; a program without a gateway writes single events with `single_event.note`.
Must not import: the other services (`telemetry`, `policy`, `upstream`, ...), `gateway` and all above it; the import
layers in `aggregator/__init__.py`, held by tests/test_layers.py.
"""
