"""The forms of messages: plain JSON, an incoming webhook of Slack, a Workflows webhook of Microsoft Teams.

Law: what peers wrote stays text: it makes no link, no mention and no markup in any form.
"""

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from aggregator.notify.config import NoticeFormat
from aggregator.notify.send.notice import Notice

_SHOWN: Final[Mapping[str, str]] = {
    "agent": "Agent",
    "tool": "Tool",
    "server": "Server",
    "reason": "Reason",
    "rule": "Rule",
    "rule_source": "Stands in",
    "added": "Added",
    "removed": "Removed",
    "changed": "Changed",
    "held": "Held",
    "times": "Times",
}
_LINK_TEXT: Final = "Open in the console"


def message(notice: Notice, form: NoticeFormat) -> bytes:
    """Return the body of a message, as UTF-8 of ASCII characters."""
    return json.dumps(_FORMS[form](notice), separators=(",", ":")).encode()


def plain(notice: Notice) -> dict[str, Any]:
    """Return a notice as docs/observability.md describes it (Standard Webhooks, Payload structure)."""
    data = {"text": notice.text, **notice.facts}
    if notice.link is not None:
        data["link"] = notice.link
    at = datetime.fromtimestamp(notice.at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return {"type": notice.type, "timestamp": at, "data": data}


def slack(notice: Notice) -> dict[str, Any]:
    """Return a message for an incoming webhook of Slack: `text` for notifications, blocks for the channel.

    Source: https://docs.slack.dev/messaging/formatting-message-text, Escaping text, Disabling automatic parsing.
    """
    lines = [f"*{label}:* {_escaped(value)}" for label, value in _facts(notice)]
    blocks = [_section(f"*{_escaped(notice.text)}*")]
    if lines:
        blocks.append(_section("\n".join(lines)))
    if notice.link is not None:
        blocks.append(_section(f"<{_escaped(notice.link)}|{_LINK_TEXT}>"))
    return {"text": _escaped(notice.text), "blocks": blocks, "unfurl_links": False, "unfurl_media": False}


def teams(notice: Notice) -> dict[str, Any]:
    """Return a message for a Workflows webhook of Teams: an Adaptive Card whose texts are no Markdown (`TextRun`).

    Source: https://learn.microsoft.com/microsoftteams/platform/webhooks-and-connectors/how-to/connectors-using.
    """
    body = [_runs(_run(notice.text, weight="Bolder"))]
    body += [_runs(_run(f"{label}: ", weight="Bolder"), _run(value)) for label, value in _facts(notice)]
    card: dict[str, Any] = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": body,
        "msteams": {"width": "Full"},
    }
    if notice.link is not None:
        card["actions"] = [{"type": "Action.OpenUrl", "title": _LINK_TEXT, "url": notice.link}]
    attachment = {"contentType": "application/vnd.microsoft.card.adaptive", "contentUrl": None, "content": card}
    return {"type": "message", "attachments": [attachment]}


_FORMS: Final[Mapping[NoticeFormat, Callable[[Notice], dict[str, Any]]]] = {
    "json": plain,
    "slack": slack,
    "teams": teams,
}


def _facts(notice: Notice) -> list[tuple[str, str]]:
    found = ((label, notice.facts[name]) for name, label in _SHOWN.items() if name in notice.facts)
    return [(label, ", ".join(value) if isinstance(value, list) else str(value)) for label, value in found]


def _section(text: str) -> dict[str, Any]:
    return {"type": "section", "text": {"type": "mrkdwn", "text": text[:3000], "verbatim": True}}


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _runs(*runs: dict[str, Any]) -> dict[str, Any]:
    return {"type": "RichTextBlock", "inlines": list(runs)}


def _run(text: str, **more: Any) -> dict[str, Any]:
    return {"type": "TextRun", "text": text, **more}
