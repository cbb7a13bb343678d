"""The records of the catalog: one per tool, made once when the upstream lists it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from aggregator.domain.names import Style, canonical

# What a record is kept rendered as: its JSON, by style of names, and a tool's text for models, by level.
Rendering = Style | Literal["level 1", "level 2"]


@dataclass(frozen=True, slots=True)
class ToolRecord:
    """A tool as exposed.

    `name` is the canonical `server.tool`. `definition` is the upstream's own JSON object, unknown fields included; only
    its name differs in what hosts see. `version` is the schema version, a digest of the definition as the upstream gave
    it: it changes with anything in it.
    `shared` is how the descriptions of most tools of the server begin, such as `Notion | `; empty if they do not.
    `param_headers` maps a property path of the arguments to the `Mcp-Param-*` header that mirrors it (`wire.headers`).
    `takes` is the server's own input schema if it takes less than the approved definition, which is shown. `sent_as` is
    the name that the server gives it now; it differs from `own_name` if the server changed the spelling of an approved
    name. Only requests to the server have it, and rules count if they match either name.
    """

    server: str
    prefix: str
    own_name: str
    definition: Mapping[str, Any]
    listed: Mapping[Style, str]
    timeout: float
    version: str = ""
    param_headers: Mapping[tuple[str, ...], Any] = field(default_factory=dict)
    rendered: dict[Rendering, bytes] = field(default_factory=dict, compare=False, repr=False)
    siblings: tuple[Mapping[str, Any], ...] = field(default=(), compare=False, repr=False)
    shared: str = field(default="", compare=False, repr=False)
    takes: Mapping[str, Any] | None = field(default=None, repr=False)
    sent_as: str = ""
    name: str = field(init=False, compare=False)

    def __post_init__(self) -> None:
        # Each call asks for it several times.
        object.__setattr__(self, "name", canonical(self.prefix, self.own_name))
        if not self.sent_as:
            object.__setattr__(self, "sent_as", self.own_name)

    @property
    def names(self) -> tuple[str, ...]:
        """The names by which settings and rules may mean the tool: the approved one, and the one that is sent if that
        differs.
        """
        return (self.own_name,) if self.sent_as == self.own_name else (self.own_name, self.sent_as)

    @property
    def only_for_apps(self) -> bool:
        """Return whether the tool is for apps, not for models (ext-apps, `_meta.ui.visibility`): called, not listed."""
        meta = self.definition.get("_meta")
        if meta is None:
            return False
        ui = meta.get("ui") if isinstance(meta, Mapping) else None
        visibility = ui.get("visibility") if isinstance(ui, Mapping) else None
        return isinstance(visibility, list) and bool(visibility) and "model" not in visibility


ItemKind = Literal["resource", "template", "prompt", "skill"]


@dataclass(frozen=True, slots=True)
class ItemRecord:
    """An exposed resource, resource template, prompt or skill; `own_name` is the upstream's URI, template or name, for
    a skill the URI of its SKILL.md.

    `resolved` is another spelling of its URI (`domain.uris.spellings.resolved`), if it has one. `takes_all`: an
    untrusted server's template that matches URIs of any host, so that no URI is routed by it. `takes`: the names of the
    arguments that the server takes of a prompt, if these are less than the approved definition shows. `sent_as`: the
    name that the server gives a prompt now, as of a tool; empty if it is `own_name`.
    """

    kind: ItemKind
    server: str
    prefix: str
    own_name: str
    definition: Mapping[str, Any]
    listed: Mapping[Style, str]
    rendered: dict[Rendering, bytes] = field(default_factory=dict, compare=False, repr=False)
    resolved: str = ""
    takes_all: bool = False
    takes: frozenset[str] | None = None
    sent_as: str = ""
