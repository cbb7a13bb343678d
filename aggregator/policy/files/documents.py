"""The models of policy files. The docs and the JSON Schema are made from the descriptions here."""

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, WithJsonSchema

from aggregator.config.durations import DURATION_PATTERN, parse_duration
from aggregator.config.fields import Bytes

Verdict = Literal["allow", "deny", "confirm"]
NAME_PATTERN: Final = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"
SERVER_PATTERN: Final = r"^[A-Za-z0-9_-]+$"
# `{subject}` and `{client}` stand for claims of a token, after something that no claim can change.
WHO_AGENT_PATTERN: Final = r"^[A-Za-z0-9][A-Za-z0-9._-]*(\{(subject|client)\})?$"
# RFC 6749, 3.3; of several with `|` between, one is enough.
SCOPE_PATTERN: Final = r"^[\x21\x23-\x5B\x5D-\x7E]+$"
KEY_PATTERN: Final = r"^[^\s:]+:\S+$"
# How many different people a rule may want, and for how many seconds a call may wait for them.
PEOPLE_AT_MOST: Final = 10
LONGEST_WAIT: Final = 3600.0


def _count(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError("expected a whole number from 1 up")
    return value


def _people(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= PEOPLE_AT_MOST:
        raise ValueError(f"expected a number of people from 1 to {PEOPLE_AT_MOST}")
    return value


def _wait(value: object) -> object:
    if (type(value) in (int, float) and value == 0) or (isinstance(value, str) and value.strip() in ("0", "0s")):
        return 0.0
    seconds = parse_duration(value)
    if seconds > LONGEST_WAIT:
        raise ValueError("expected at most an hour")
    return seconds


def _none_is_empty(value: object) -> object:
    """Read `allow:` with nothing after it as an empty object."""
    return {} if value is None else value


def _no_list(value: object) -> object:
    return [] if value is None else value


Name = Annotated[str, StringConstraints(pattern=NAME_PATTERN, max_length=64)]
Server = Annotated[str, StringConstraints(pattern=SERVER_PATTERN, max_length=128)]
HashedKey = Annotated[str, StringConstraints(pattern=KEY_PATTERN, max_length=1000)]
PatternText = Annotated[str, StringConstraints(min_length=1, max_length=500)]
WhoAgent = Annotated[str, StringConstraints(pattern=WHO_AGENT_PATTERN, max_length=52)]
Claim = Annotated[str, StringConstraints(min_length=1, max_length=1000)]
Scope = Annotated[str, StringConstraints(pattern=SCOPE_PATTERN, max_length=500)]
Claims = Annotated[list[Claim], BeforeValidator(_no_list)]
Scopes = Annotated[list[Scope], BeforeValidator(_no_list)]
Count = Annotated[int, BeforeValidator(_count), Field(ge=1, le=10**9)]
People = Annotated[
    int, BeforeValidator(_people), WithJsonSchema({"type": "integer", "minimum": 1, "maximum": PEOPLE_AT_MOST})
]
Wait = Annotated[
    float,
    BeforeValidator(_wait),
    WithJsonSchema({"anyOf": [{"type": "number", "minimum": 0}, {"type": "string", "pattern": DURATION_PATTERN}]}),
]
Patterns = Annotated[list[PatternText], BeforeValidator(_no_list)]
Names = Annotated[list[Name], BeforeValidator(_no_list)]
Servers = Annotated[list[Server], BeforeValidator(_no_list)]


class PolicyModel(BaseModel):
    """A part of a policy file. Nothing is converted, nothing unknown is let through, no value is shown in errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, hide_input_in_errors=True, defer_build=True)


class LimitsPart(PolicyModel):
    """Limits on the use of all tools that a pattern matches, counted together."""

    per_minute: Count | None = Field(
        default=None, description="Calls in any 60 seconds.", examples=[30], json_schema_extra={"minimum": 1}
    )
    per_conversation: Count | None = Field(
        default=None,
        description="Calls in one conversation. The host names it (`_meta` key `aggregator/conversation_id`, or as "
        "`/v1` has it); without a name its MCP session is one, and a call without either is refused. It bounds hosts "
        "that mean well: the program that makes the calls can name another conversation at any time, which "
        "`per_minute` bounds.",
        examples=[3],
        json_schema_extra={"minimum": 1},
    )
    concurrent: Count | None = Field(
        default=None,
        description="Calls that run at the same time. One that is cancelled no longer counts, whether or not its "
        "server heeds that.",
        examples=[2],
        json_schema_extra={"minimum": 1},
    )
    result_bytes: Bytes | None = Field(
        default=None,
        description="The largest result, as a number of bytes or a text such as `64KiB`. Of what is larger the "
        "beginning comes through, and the agent reads on in pages of this size.",
        examples=["64KiB"],
    )
    result_tokens: Count | None = Field(
        default=None,
        description="The most tokens of a result's text, as estimated, where that is less than `results.max_tokens` of "
        "the configuration. Of what is longer the beginning comes through, and the agent reads on in pages.",
        examples=[4000],
        json_schema_extra={"minimum": 1},
    )


class AnnotationsPart(PolicyModel):
    """Rules for allowed tools by their nature. They only tighten: `allow` here grants nothing.

    The annotations of a tool count only for servers that the configuration trusts; what `read_only` and `idempotent`
    declare counts always. Of any other tool the worst is assumed: that it may destroy something and reaches the open
    world.
    """

    destructive: Verdict | None = Field(
        default=None, description="Tools that may destroy something: all that are not known to be harmless."
    )
    open_world: Verdict | None = Field(
        default=None,
        description="Tools that reach beyond a closed set of things, such as the web: all that a trusted server does "
        "not say otherwise of.",
    )
    read_only: Verdict | None = Field(default=None, description="Tools that are known to only read.")
    idempotent: Verdict | None = Field(
        default=None, description="Tools that are known to change nothing more when called again."
    )


class DefaultsPart(PolicyModel):
    """Rules for every agent, as if each had this role. Unknown agents have nothing."""

    allow: Patterns = Field(
        default=[],
        description="What may be seen and called. Nothing else is: without a match the answer is no.",
        examples=[["time.*", "server:legal", "resource:legal.*"]],
    )
    deny: Patterns = Field(
        default=[],
        description="What may not, whatever any `allow` says here or in a role.",
        examples=[["*.delete_*"]],
    )
    confirm: Patterns = Field(
        default=[],
        description="What a person must agree to, each time. It grants nothing: the tool must be allowed too.",
        examples=[["shop.pay_*"]],
    )
    confirm_people: Annotated[Mapping[PatternText, People], BeforeValidator(_none_is_empty)] = Field(
        default={},
        description="Per pattern how many different people must agree, each time. From two on the host is not asked: "
        "they answer in the queue, one no ends it, and each person counts once. Of several patterns that match the "
        "largest number counts. It grants nothing: the tool must be allowed too.",
        examples=[{"erp.post_*": 2}],
    )
    arguments: Annotated[Mapping[PatternText, Mapping[str, Any]], BeforeValidator(_none_is_empty)] = Field(
        default={},
        description="Per pattern a JSON Schema that the arguments must fit besides the tool's own. The agent is shown "
        "both and held to both; every schema whose pattern matches counts.",
        examples=[
            {"amap.maps_weather": {"properties": {"city": {"enum": ["Beijing", "Shanghai"]}}, "required": ["city"]}}
        ],
    )
    limits: Annotated[Mapping[PatternText, LimitsPart], BeforeValidator(_none_is_empty)] = Field(
        default={},
        description="Per pattern how much may be used. Every limit whose pattern matches counts, each for itself.",
        examples=[{"amap.*": {"per_minute": 30}}],
    )
    scopes: Annotated[Mapping[PatternText, Scopes], BeforeValidator(_none_is_empty)] = Field(
        default={},
        description="Per pattern the scopes that an access token must have for a call or a read; every line whose "
        "pattern matches counts. `issues.read|issues` is content with either, and asks for the first. It grants "
        "nothing, and does not concern API keys and programs on stdio, which have no scopes.",
        examples=[{"jira.create_*": ["issues.write"]}],
    )
    annotations: AnnotationsPart = Field(
        default=AnnotationsPart.model_construct(),
        description="What becomes of allowed tools by their nature.",
        examples=[{"destructive": "confirm"}],
    )
    read_only: Patterns = Field(
        default=[],
        description="Tools that you declare to only read, whatever their server says or does not say.",
        examples=[["time.*"]],
    )
    idempotent: Patterns = Field(
        default=[],
        description="Tools that you declare to change nothing more when called again. Their calls may be repeated "
        "after a failure.",
        examples=[["crm.set_*"]],
    )
    retry: Patterns = Field(
        default=[],
        description="Tools whose calls may be repeated after a failure although nothing declares them idempotent.",
        examples=[["mail.queue_draft"]],
    )
    bindings: Annotated[Mapping[PatternText, Server], BeforeValidator(_none_is_empty)] = Field(
        default={},
        description="Plain tool names and the server each is taken from, where several servers have a tool of one "
        "name. It grants nothing: the tool must be allowed too.",
        examples=[{"mall4j.product.search": "mall_a"}],
    )
    confirm_by: Literal["host", "queue"] | None = Field(
        default=None,
        description="Who says yes to a call that waits for a person. `host`: the program that makes the call puts the "
        "question to its user, and its answer counts; it proves no person, since whoever runs that program can "
        "answer. `queue`: only somebody who answers with `aggregator approvals`; the host is not asked. Built in: "
        "`host`.",
        examples=["queue"],
    )
    confirm_fallback: Literal["deny", "queue"] | None = Field(
        default=None,
        description="What becomes of a call that waits for a person when the host cannot ask one: `deny` refuses it, "
        "`queue` keeps it until somebody approves it. Without effect where `confirm_by` is `queue`. Built in: `deny`.",
        examples=["queue"],
    )
    confirm_wait: Wait | None = Field(
        default=None,
        description="How long a call whose question is in the queue waits for the answer, at most an hour; after that "
        "the agent is told to make the same call again. `0` tells it at once. Built in: `50s`, and `5m` where the "
        "host asked for progress, which it then gets every 10 seconds; many hosts give up after a minute without any.",
        examples=["2m"],
    )
    denials: Literal["explicit", "hidden"] | None = Field(
        default=None,
        description="`explicit` says that a call is not allowed, and why; `hidden` answers as if there were no such "
        "tool. Built in: `explicit`.",
        examples=["hidden"],
    )
    names: Literal["canonical", "compatible"] | None = Field(
        default=None,
        description="How tools are listed: `canonical` as `server.tool`, `compatible` as `server__tool`. Calls may use "
        "either. Built in: what the frontend says.",
        examples=["compatible"],
    )
    expose: Literal["all", "search", "auto", "code"] | None = Field(
        default=None,
        description="How much is listed: `all` tools, `search` only those by which the others are found and called, "
        "`auto` the one or the other by what the list would cost. Built in: what the frontend says.",
        examples=["search"],
    )
    pinned: Patterns = Field(
        default=[],
        description="Tools that are listed in any case. It grants nothing: the tool must be allowed too.",
        examples=[["time.get_current_time"]],
    )


class RolePart(DefaultsPart):
    """Rules that several agents have in common."""

    roles: Names = Field(
        default=[], description="Roles whose rules count here too, and theirs in turn.", examples=[["reader"]]
    )


class AgentPart(RolePart):
    """One agent. An agent that is in no file may do nothing."""

    tenant: Name | None = Field(
        default=None,
        description="The tenant it belongs to. Without one it sees only servers that no tenant claims.",
        examples=["acme"],
    )
    keys: Annotated[list[HashedKey], BeforeValidator(_no_list)] = Field(
        default=[],
        repr=False,
        description="Its hashed API keys, as `KEYID:HASH`. A key id stands for one agent only.",
    )


class TenantPart(PolicyModel):
    """A group that others cannot see into."""

    servers: Servers = Field(
        default=[],
        description="Servers, by their name in the configuration, that only agents of this tenant see. No two tenants "
        "claim one server.",
        examples=[["crm", "billing"]],
    )


class WhoPart(PolicyModel):
    """A rule that says which agent an access token stands for; every field but `agent` narrows the tokens it is for.

    In `subject`, `client` and `groups` a `*` stands for any characters.
    """

    issuer: Claim | None = Field(
        default=None,
        description="The issuer of the token, exactly as `auth.issuers` has it.",
        examples=["https://login.example.com"],
    )
    subject: Claim | None = Field(
        default=None, description="The person or program.", examples=["alice@example.com", "*@example.com"]
    )
    client: Claim | None = Field(
        default=None, description="The program that the token was issued to.", examples=["claude-code"]
    )
    groups: Claims = Field(default=[], description="One of these groups is needed.", examples=[["engineering"]])
    scopes: Scopes = Field(default=[], description="All of these scopes are needed.", examples=[["mcp"]])
    agent: WhoAgent = Field(
        description="The agent: one of `agents`, whose rules then count, or a name that no file has. `{subject}` or "
        "`{client}` at its end makes an agent for each; a value that no name can have becomes 20 hexadecimal digits.",
        examples=["shop", "dev-{subject}"],
    )
    tenant: Name | None = Field(default=None, description="The tenant of an agent that no file has.", examples=["acme"])
    roles: Names = Field(default=[], description="The roles of an agent that no file has.", examples=[["reader"]])


class PolicyFile(PolicyModel):
    """One file of `policies/`. All files count together, in no order."""

    agents: Annotated[Mapping[Name, AgentPart | None], BeforeValidator(_none_is_empty)] = Field(
        default={}, description="Agents by id."
    )
    roles: Annotated[Mapping[Name, RolePart | None], BeforeValidator(_none_is_empty)] = Field(
        default={}, description="Roles by name: rules that agents have in common."
    )
    tenants: Annotated[Mapping[Name, TenantPart | None], BeforeValidator(_none_is_empty)] = Field(
        default={}, description="Tenants by name, and the servers that belong to each."
    )
    defaults: DefaultsPart | None = Field(default=None, description="What every agent has, as if it were a role.")
    who: Annotated[list[WhoPart], BeforeValidator(_no_list)] = Field(
        default=[],
        description="Which agent an access token stands for. The first rule that fits counts; a token that none fits "
        "is refused. They stand in one file.",
        examples=[[{"groups": ["engineering"], "agent": "dev-{subject}", "roles": ["reader"]}]],
    )
