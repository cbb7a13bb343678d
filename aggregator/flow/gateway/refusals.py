"""The refusals of calls for what their conversation has read."""

from aggregator.domain.call_record import Status
from aggregator.domain.decision import Decision
from aggregator.domain.errors import Blame, CallRefused
from aggregator.domain.records import ToolRecord


class FlowDenied(CallRefused):
    """A flow rule forbids the call after earlier reads in the conversation."""

    code = "flow_denied"
    advice = "Do not repeat the call in this conversation; use another tool, or ask the person you work for."

    @classmethod
    def by(cls, tool: str, decision: Decision, meant: ToolRecord | None = None) -> "FlowDenied":
        """Return the refusal that a decision is."""
        said = f"{tool} was not called: {decision.reason}."
        return cls(tool, said, blame=Blame(decision.rule, decision.source), meant=meant)

    @classmethod
    def of_answer(cls, tool: str, decision: Decision) -> "FlowDenied":
        """Return the refusal to send the host's answer to a question of the tool's server, for a decision by now."""
        said = f"{tool} was ended, and its question was not answered: {decision.reason}."
        return cls(tool, said, blame=Blame(decision.rule, decision.source))


class FlowUnknown(CallRefused):
    """A flow rule applies to the call, and the database cannot tell the earlier reads of the conversation now."""

    code = "flow_unknown"
    status = 503
    outcome: Status = "unavailable"
    retryable = True
    advice = "Nothing was done. You may try again in a moment."

    @classmethod
    def of(cls, tool: str) -> "FlowUnknown":
        """Return the refusal of a call of a tool."""
        said = f"{tool} was not called: it cannot be looked up now what this conversation has read, and that decides."
        return cls(tool, said)


class FlowWithheld(CallRefused):
    """An answer brings labels that cannot be written now, and other processes would decide without them."""

    code = "flow_unknown"
    status = 503
    outcome: Status = "unavailable"
    advice = "It may have taken effect: do not simply repeat the call."

    @classmethod
    def of(cls, tool: str) -> "FlowWithheld":
        """Return the refusal to forward a tool's answer."""
        said = f"What {tool} answered is withheld: it cannot be noted now that this conversation has read it."
        return cls(tool, said)
