"""The parts of a call's record: its timed steps, and its end.

Terms:
  step: a part of the pipeline, with its time.
  attempt: a step in which an upstream had the call; a failed one, and those after it, are recorded in detail.
  step times: seconds since the start of the call, and seconds that the step took.
  end: the status of a call with its code, and the message to the agent, without values of the call.

Entry point: `timing.timed` and `notes.note_result`; `gateway/call_log.py` opens and closes records.
Must not import: anything else of the gateway, nor what is above it (tests/test_layers.py).
"""
