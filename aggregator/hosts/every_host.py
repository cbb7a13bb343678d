"""All known hosts."""

from typing import Final

from aggregator.domain.errors import OperatorError
from aggregator.hosts.chat_apps import (
    BOLTAI,
    CHATGPT,
    CHERRY_STUDIO,
    FIVE_IRE,
    LOBECHAT,
    PERPLEXITY,
    RAYCAST,
    WITSY,
)
from aggregator.hosts.claude_code import CLAUDE_CODE
from aggregator.hosts.claude_desktop import CLAUDE_DESKTOP
from aggregator.hosts.code_agents import AMAZON_Q, AMP, CRUSH, DROID, JUNIE, QODER_CLI, QWEN_CODE, WARP
from aggregator.hosts.code_extensions import CLINE, KILO_CODE_LEGACY, ROO_CODE
from aggregator.hosts.continue_dev import CONTINUE
from aggregator.hosts.editors import CURSOR, DEVIN, LM_STUDIO, WINDSURF, ZED
from aggregator.hosts.goose import GOOSE
from aggregator.hosts.model import HostLimits, HostProgram
from aggregator.hosts.more_editors import ANTIGRAVITY, KIRO, QODER, TRAE
from aggregator.hosts.opencode import KILO_CODE, OPENCODE
from aggregator.hosts.terminals import COPILOT_CLI, GEMINI_CLI
from aggregator.hosts.toml_host import CODEX
from aggregator.hosts.vscode import VSCODE, VSCODE_INSIDERS

HOSTS: Final[tuple[HostProgram, ...]] = (
    CLAUDE_DESKTOP,
    CLAUDE_CODE,
    CURSOR,
    VSCODE,
    VSCODE_INSIDERS,
    DEVIN,
    WINDSURF,
    CLINE,
    ROO_CODE,
    CODEX,
    GEMINI_CLI,
    ZED,
    CONTINUE,
    GOOSE,
    LM_STUDIO,
    COPILOT_CLI,
    OPENCODE,
    KILO_CODE,
    KILO_CODE_LEGACY,
    ANTIGRAVITY,
    KIRO,
    QWEN_CODE,
    DROID,
    JUNIE,
    AMAZON_Q,
    CRUSH,
    WARP,
    AMP,
    TRAE,
    QODER,
    QODER_CLI,
    BOLTAI,
    FIVE_IRE,
    WITSY,
    RAYCAST,
    CHATGPT,
    PERPLEXITY,
    CHERRY_STUDIO,
    LOBECHAT,
)
_ANY_HOST: Final = HostLimits(None)


def host_named(id: str) -> HostProgram:
    """Return the host with an id, in any case and also by a common other name. Raises OperatorError."""
    wanted = id.strip().lower().replace("_", "-").replace(" ", "-")
    found = next((host for host in HOSTS if wanted in (host.id, *host.also)), None)
    if found is None:
        known = ", ".join(host.id for host in HOSTS)
        raise OperatorError(
            f"There is no host {id[:40]!r} that is known here. Name one of: {known}. Agent frameworks connect to the "
            "address that `aggregator install` without a host prints."
        )
    return found


def limits_of(host: str | None) -> HostLimits:
    """Return the limits of the host with an id; without an id, limits that refuse nothing."""
    return next((known.limits for known in HOSTS if known.id == host), _ANY_HOST)
