"""The audit log of a running gateway: every call is a row, written shortly after the call and never in its way.

Terms:
  call record: what a closed call leaves, `aggregator.domain.call_record.CallRecord`; one row each.
  event: something besides calls that an operator wants to find later, such as a reload of the policies.
  capture: the part of arguments and results that is kept, redacted and cut to a bounded length.
  writer: the one task that puts rows into the database, many in one transaction.
  spill: files beside the database for rows that it does not take.
  process mark: a locked file by which others see that the calls of this process go on.

Entry point: `log.AuditLog`; a program without a gateway writes single events with `single_event.note`.
Must not import: the other services (`telemetry`, `policy`, `upstream`, ...), `gateway` and all above it; the import
layers in `aggregator/__init__.py`, held by tests/test_layers.py.
"""
