"""The features of the program. A program without one of them is built by leaving its line out of the list.

Rule: hooks decide about calls in the order of the list.
"""

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from aggregator.app.hook_parts import BuiltHook, HookParts
from aggregator.config.errors import ConfigError
from aggregator.config.model import Config
from aggregator.flow.app import build_flow
from aggregator.gateway.views.views import Views
from aggregator.storage.locate import full_url, sqlite_path


class Feature(NamedTuple):
    """A feature, by the name of its folder.

    build_hook: makes its hook in calls and reads, if it has one. meta_tools: the names of its meta tools.
    """

    name: str
    build_hook: Callable[[HookParts], BuiltHook] | None = None
    meta_tools: tuple[str, ...] = ()


FEATURES: Final[tuple[Feature, ...]] = (
    Feature("flow", build_flow),
    Feature("pins"),
    Feature("results", meta_tools=("read_result",)),
    Feature("skills"),
    Feature("dialects"),
    Feature("code", meta_tools=("run_code",)),
    Feature("accounts"),
    Feature("intent", meta_tools=("match_intent",)),
    Feature("notify"),
    Feature("tool_reports", meta_tools=("report_tool",)),
    Feature("replicas"),
)


def left_out(features: Iterable[Feature]) -> frozenset[str]:
    """Return the names of the features and the meta tools that a program with only these features lacks."""
    names = {feature.name for feature in features}
    missing = [feature for feature in FEATURES if feature.name not in names]
    return frozenset(name for feature in missing for name in (feature.name, *feature.meta_tools))


def refuse_missing(missing: frozenset[str], config: Config, views: Views, storage: str | None) -> None:
    """Refuse a configuration that relies on a feature that is left out.

    Raises:
        ConfigError: it protects something by the feature, or offers it.
    """
    asked = {
        "flow": views.rulebook is not None and views.rulebook.has_flow,
        "code": config.expose == "code",
        "accounts": any(server.auth is not None for server in config.servers),
        "replicas": storage is not None and sqlite_path(full_url(storage)) is None,
    }
    for name, wanted in asked.items():
        if wanted and name in missing:
            raise ConfigError(f"This program was built without the feature `{name}`, which the configuration uses.")
