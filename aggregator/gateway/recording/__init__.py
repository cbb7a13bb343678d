"""The parts of a call's record: its steps as they are timed, and how the call ended.

Terms:
  step: a part of the pipeline, with its time.
  attempt: a step in which an upstream had the call; of one that failed, and of those after it, more is told.
  step times: seconds since the call came, and seconds that it took.
  end: the status of a call with its code, and what the agent was told, without values of the call.

Entry point: `timing.timed` and `notes.note_result`; `gateway/call_log.py` opens and closes records.
Must not import: anything else of the gateway, nor what is above it (tests/test_layers.py).
"""
