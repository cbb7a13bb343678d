"""The errors for missing things: an item that does not exist for a host, or differs from its listing, a scope in its
token, an account at a server.

A read can only fail as a JSON-RPC error.
"""

from collections.abc import Sequence
from typing import Any, Final

from aggregator.domain.call_record import Status
from aggregator.domain.errors import Blame, CallRefused, HostError, NotServed, UpstreamError
from aggregator.domain.records import ToolRecord
from aggregator.domain.text.cut import cut_between_words, quoted

# What 2026-07-28 calls invalid params (SEP-2164).
RESOURCE_NOT_FOUND: Final = -32002


class UnknownResource(NotServed):
    """No resource visible to this agent has the URI. `code` is the code of 2026-07-28."""

    word = "unknown_resource"

    def __init__(self, uri: str, message: str | None = None, data: Any = None, blame: Blame | None = None) -> None:
        super().__init__(message or f"Resource not found: {quoted(uri, 500)}.", data or {"uri": uri}, blame)

    def before_2026(self) -> HostError:
        """Return the error as hosts of the handshake era get it."""
        return HostError(RESOURCE_NOT_FOUND, self.message, self.data)


class OddSpelling(NotServed):
    """A URI that one server takes for another one than the next server does, so that no policy could decide about it.

    What a server lists in such a spelling can be read all the same.
    """

    word = "odd_spelling"

    def __init__(self, uri: str, why: str) -> None:
        super().__init__(
            f"The URI {cut_between_words(ascii(uri), 200)} is not accepted: {why}.", {"uri": uri, "code": self.word}
        )


class UnknownPrompt(NotServed):
    """No prompt has this name (S/server/prompts: -32602)."""

    word = "unknown_prompt"

    def __init__(self, name: str, nearest: list[str], blame: Blame | None = None) -> None:
        hint = f" Did you mean {' or '.join(repr(n) for n in nearest)}?" if nearest else ""
        super().__init__(f"Unknown prompt: {quoted(name)}.{hint}", {"name": name, "nearest": nearest}, blame)


class UnknownSkill(NotServed):
    """No skill's SKILL.md has this URI (SEP-2640: -32602 in every era)."""

    word = "unknown_skill"

    def __init__(self, uri: str, message: str | None = None, blame: Blame | None = None) -> None:
        super().__init__(message or f"No skill is served at {quoted(uri, 500)}.", {"uri": uri}, blame)


class UnknownDirectory(NotServed):
    """No directory has this URI (SEP-2640: -32602 in every era)."""

    word = "unknown_directory"

    def __init__(self, uri: str, message: str | None = None, blame: Blame | None = None) -> None:
        super().__init__(message or f"{quoted(uri, 500)} is no directory.", {"uri": uri}, blame)


class ItemRefused(NotServed):
    """The policy, or a user, does not allow the read; `details` contain the `code`."""

    def __init__(
        self, message: str, details: dict[str, Any], blame: Blame | None = None, outcome: Status = "denied"
    ) -> None:
        super().__init__(message, details, blame, outcome)
        self.word = details["code"]

    @classmethod
    def by(cls, refused: CallRefused) -> "ItemRefused":
        """Return the error of a read that is refused for what refuses a call."""
        details = {"code": refused.code, "status": refused.status, "retryable": refused.retryable, **refused.details}
        return cls(f"{refused.message} {refused.advice}".rstrip(), details, refused.blame, refused.outcome)


class ItemHeld(ItemRefused):
    """The definition of the item changed since it was approved, or was not approved yet."""

    held = "item_held"


class ToolHeld(CallRefused):
    """The definition of the tool changed since it was approved, or was not approved yet: it is not called."""

    code = "tool_held"
    advice = "Do not repeat the call until then; use another tool, or tell the person you work for."


class InsufficientScope(CallRefused):
    """The policy wants a token with more scopes for this tool; `scopes` are all that a token for it needs."""

    code = "insufficient_scope"
    retryable = True
    advice = "Nothing was done. Ask for a token with these scopes, and call again."

    def __init__(
        self,
        tool: str,
        message: str,
        scopes: tuple[str, ...],
        *,
        blame: Blame | None = None,
        meant: ToolRecord | None = None,
    ) -> None:
        super().__init__(tool, message, blame=blame, meant=meant, scopes=list(scopes))
        self.scopes = scopes


class LoginRequired(UpstreamError):
    """The server requires an account to be connected first, or again: nothing was run.

    `details["url"]` is the page for that; without one, `details["command"]` is the command to run. `scopes` are the
    server's demands; only the page shows them, since the server chose their names.
    """

    code = "login_required"
    outcome: Status = "unavailable"
    retryable = True
    advice = "When that is done, you may try again."

    def __init__(
        self,
        server: str,
        message: str,
        *,
        said: str = "",
        url: str | None = None,
        scopes: Sequence[str] = (),
        **details: Any,
    ) -> None:
        super().__init__(server, message, said=said, **details, **({"url": url} if url is not None else {}))
        self.scopes = tuple(scopes)


class SkillMismatch(UpstreamError):
    """A file of a skill differs from the skill's entry; `details` name the `skill` and the `file`."""

    code = "skill_mismatch"
    retryable = True
    advice = "The server's skills are listed anew: in a moment you may try again."
