"""Questions to the host and its user, in the form of each era: confirmation of a call, and questions of upstreams.

Terms:
  confirm: ask the user at the host whether a call may go ahead (`confirm.py`).
  approval: the agreement to a call, at the host or through the queue in the database (`approval.py`).
  input request: a request of an upstream to the host during a call: elicitation, sampling, roots.
  round: the input requests of one answer, in the form for the host (`next_round.py`, which only decides).
  parked call: a call that goes on while its host of 2026-07-28 is away with a question (`parked_calls.py`).
  sealed state: the `requestState` that brings such a host back to its call (`sealed_state.py`).

Entry point: `ApprovalStep.obtain` for agreement, `InputRequests` for the questions of upstreams.

Must not import: `calls`, which has the loop over the rounds, nor anything above it; tests/test_layers.py holds that.
"""
