"""The models of policy files. The docs and the JSON Schema are generated from the descriptions here."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from aggregator.config.fields import Bytes
from aggregator.dialects.names import Schemas
from aggregator.policy.files.values import (
    Claim,
    Claims,
    Count,
    Decay,
    HashedKey,
    Label,
    LabelNames,
    LabelPatterns,
    Name,
    Names,
    Patterns,
    PatternText,
    People,
    Scopes,
    Server,
    Servers,
    Verdict,
    Wait,
    WhoAgent,
    no_list,
    none_is_empty,
)


class PolicyModel(BaseModel):
    """A part of a policy file. Nothing is converted, unknown keys are rejected, and errors show no value."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, hide_input_in_errors=True, defer_build=True)


class LimitsPart(PolicyModel):
    """Limits on the use of all tools that a pattern matches, counted together."""

    per_minute: Count | None = Field(
        default=None, description="Calls in any 60 seconds.", examples=[30], json_schema_extra={"minimum": 1}
    )
    per_conversation: Count | None = Field(
        default=None,
        description="Calls in one conversation. The host names the conversation (`_meta` key "
        "`aggregator/conversation_id`, or the field of `/v1`); without a name, the MCP session counts "
        "as one, and a call without either is refused. This limit bounds only honest hosts: a program "
        "can name another conversation at any time. Add `per_minute` to bound that.",
        examples=[3],
        json_schema_extra={"minimum": 1},
    )
    concurrent: Count | None = Field(
        default=None,
        description="Calls that run at the same time. A cancelled call no longer counts, even if its server goes on.",
        examples=[2],
        json_schema_extra={"minimum": 1},
    )
    result_bytes: Bytes | None = Field(
        default=None,
        description="The largest result, as a number of bytes or a text such as `64KiB`. If a result is larger, "
        "the agent gets the beginning, and reads on in pages of this size.",
        examples=["64KiB"],
    )
    result_tokens: Count | None = Field(
        default=None,
        description="The most tokens of a result's text, as estimated, also for tools that a host calls by their "
        "own names; for models, if that is less than `results.max_tokens` of the configuration. If a "
        "text is longer, the agent gets the beginning, and reads on in pages.",
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
        default=None, description="Tools that may destroy something: all tools that are not known to be harmless."
    )
    open_world: Verdict | None = Field(
        default=None,
        description="Tools that reach beyond a closed set of things, such as the web: all tools, unless a trusted "
        "server says otherwise.",
    )
    read_only: Verdict | None = Field(default=None, description="Tools that are known to be read-only.")
    idempotent: Verdict | None = Field(
        default=None, description="Tools that are known to change nothing more when called again."
    )


class DefaultsPart(PolicyModel):
    """Rules for every agent, as if each had this role. Unknown agents have nothing."""

    allow: Patterns = Field(
        default=[],
        description="Items that the agent may see and call. Everything else is denied.",
        examples=[["time.*", "server:legal", "resource:legal.*"]],
    )
    deny: Patterns = Field(
        default=[],
        description="Tools that are denied, even if an `allow` here or in a role matches.",
        examples=[["*.delete_*"]],
    )
    confirm: Patterns = Field(
        default=[],
        description="Tools that need a confirmation, each time. It grants nothing: the tool must be allowed too.",
        examples=[["shop.pay_*"]],
    )
    confirm_people: Annotated[Mapping[PatternText, People], BeforeValidator(none_is_empty)] = Field(
        default={},
        description="Per pattern how many different approvers must agree, each time. From two on, the host is not "
        "asked: approvers answer in the queue, one no ends the question, and each approver counts "
        "once. Of several matching patterns the largest number applies. It grants nothing: the tool "
        "must be allowed too.",
        examples=[{"erp.post_*": 2}],
    )
    arguments: Annotated[Mapping[PatternText, Mapping[str, Any]], BeforeValidator(none_is_empty)] = Field(
        default={},
        description="Per pattern a JSON Schema that the arguments must fit besides the tool's own. The agent sees "
        "both, and calls must fit both; every schema whose pattern matches counts.",
        examples=[
            {"amap.maps_weather": {"properties": {"city": {"enum": ["Beijing", "Shanghai"]}}, "required": ["city"]}}
        ],
    )
    limits: Annotated[Mapping[PatternText, LimitsPart], BeforeValidator(none_is_empty)] = Field(
        default={},
        description="Limits of use per pattern. Every limit whose pattern matches applies, each separately.",
        examples=[{"amap.*": {"per_minute": 30}}],
    )
    scopes: Annotated[Mapping[PatternText, Scopes], BeforeValidator(none_is_empty)] = Field(
        default={},
        description="Per pattern the scopes that an access token must have for a call or a read; every line whose "
        "pattern matches counts. `issues.read|issues` accepts either, and asks for the first. It "
        "grants nothing, and does not apply to API keys and programs on stdio, which have no scopes.",
        examples=[{"jira.create_*": ["issues.write"]}],
    )
    annotations: AnnotationsPart = Field(
        default=AnnotationsPart.model_construct(),
        description="Rules for kinds of allowed tools.",
        examples=[{"destructive": "confirm"}],
    )
    read_only: Patterns = Field(
        default=[],
        description="Tools that you declare read-only, regardless of their server's annotations.",
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
    bindings: Annotated[Mapping[PatternText, Server], BeforeValidator(none_is_empty)] = Field(
        default={},
        description="Plain tool names and the server of each, if several servers have a tool of the same name. It "
        "grants nothing: the tool must be allowed too.",
        examples=[{"mall4j.product.search": "mall_a"}],
    )
    confirm_by: Literal["host", "queue"] | None = Field(
        default=None,
        description="Who confirms a call. `host`: the program that makes the call asks its user, and its answer "
        "counts; it does not prove that a user agreed, because the program itself can answer. "
        "`queue`: only an approver with `aggregator approvals` or the console; the host is not asked. "
        "Built in: `host`.",
        examples=["queue"],
    )
    confirm_fallback: Literal["deny", "queue"] | None = Field(
        default=None,
        description="For a call that needs a confirmation when the host cannot ask: `deny` refuses it, `queue` keeps "
        "it until it is approved. Without effect if `confirm_by` is `queue`. Built in: `deny`.",
        examples=["queue"],
    )
    confirm_wait: Wait | None = Field(
        default=None,
        description="How long a call waits for the answer to its question in the queue, at most an hour; after "
        "that, the answer asks the agent to make the same call again. `0` does not wait. Built in: "
        "`50s`, and `5m` if the host asked for progress, which it then gets every 10 seconds; many "
        "hosts give up after a minute without any.",
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
        description="How tools are listed: `canonical` as `server.tool`, `compatible` as `server__tool`. Calls may "
        "use either. Built in: the setting of the frontend.",
        examples=["compatible"],
    )
    schemas: Schemas | None = Field(
        default=None,
        description="The dialect of definitions in its lists, the rules of the model API behind the agent. Built in: "
        "the one that the host's address asks for, else the setting of the frontend.",
        examples=["openai"],
    )
    expose: Literal["all", "search", "auto", "code"] | None = Field(
        default=None,
        description="How much is listed: `all` tools, `search` only the meta tools that find and call the others, "
        "`auto` one of the two, by the cost of the list. Built in: the setting of the frontend.",
        examples=["search"],
    )
    pinned: Patterns = Field(
        default=[],
        description="Tools that are always listed. It grants nothing: the tool must be allowed too.",
        examples=[["time.get_current_time"]],
    )


class RolePart(DefaultsPart):
    """Rules that several agents have in common."""

    roles: Names = Field(
        default=[],
        description="Roles whose rules also apply here, with the roles of those roles.",
        examples=[["reader"]],
    )


class AgentPart(RolePart):
    """One agent. An agent that is in no file may do nothing."""

    tenant: Name | None = Field(
        default=None,
        description="The tenant of the agent. Without one, the agent sees only servers that no tenant claims.",
        examples=["acme"],
    )
    keys: Annotated[list[HashedKey], BeforeValidator(no_list)] = Field(
        default=[],
        repr=False,
        description="Its hashed API keys, as `KEYID:HASH`. A key id belongs to one agent only.",
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
        description="The issuer of the token, exactly as in `auth.issuers`.",
        examples=["https://login.example.com"],
    )
    subject: Claim | None = Field(
        default=None, description="The user or program.", examples=["alice@example.com", "*@example.com"]
    )
    client: Claim | None = Field(
        default=None, description="The program that the token was issued to.", examples=["claude-code"]
    )
    groups: Claims = Field(default=[], description="One of these groups is needed.", examples=[["engineering"]])
    scopes: Scopes = Field(default=[], description="All of these scopes are needed.", examples=[["mcp"]])
    agent: WhoAgent = Field(
        description="The agent: one of `agents`, whose rules then apply, or a name that no file has. `{subject}` "
        "or `{client}` at its end makes an agent for each; a value that no name can have becomes 20 "
        "hexadecimal digits.",
        examples=["shop", "dev-{subject}"],
    )
    tenant: Name | None = Field(default=None, description="The tenant of an agent that no file has.", examples=["acme"])
    roles: Names = Field(default=[], description="The roles of an agent that no file has.", examples=[["reader"]])


class FlowPart(PolicyModel):
    """A rule about calls after something was read in the same conversation. It only tightens."""

    after: LabelNames = Field(
        description="The label, or the labels, that the conversation must have before the call; of several, all "
        "are needed.",
        examples=["untrusted", ["untrusted", "private"]],
    )
    calls: LabelNames = Field(
        description="The label of the tools, resources or prompts that the rule applies to; of several, one is enough.",
        examples=["outward"],
    )
    then: Literal["confirm", "deny"] = Field(
        description="`confirm` asks each time, `deny` refuses. If several rules match, the strictest applies.",
        examples=["confirm"],
    )


class PolicyFile(PolicyModel):
    """One file of `policies/`. All files count together, in no order."""

    agents: Annotated[Mapping[Name, AgentPart | None], BeforeValidator(none_is_empty)] = Field(
        default={}, description="Agents by id."
    )
    roles: Annotated[Mapping[Name, RolePart | None], BeforeValidator(none_is_empty)] = Field(
        default={}, description="Roles by name: rules that agents have in common."
    )
    tenants: Annotated[Mapping[Name, TenantPart | None], BeforeValidator(none_is_empty)] = Field(
        default={}, description="Tenants by name, and the servers that belong to each."
    )
    defaults: DefaultsPart | None = Field(default=None, description="What every agent has, as if it were a role.")
    who: Annotated[list[WhoPart], BeforeValidator(no_list)] = Field(
        default=[],
        description="Which agent an access token stands for. The first rule that fits counts; a token that none fits "
        "is refused. They stand in one file.",
        examples=[[{"groups": ["engineering"], "agent": "dev-{subject}", "roles": ["reader"]}]],
    )
    labels: Annotated[Mapping[Label, LabelPatterns], BeforeValidator(none_is_empty)] = Field(
        default={},
        description="Per label the tools, resources and prompts that have it. A label describes the results that "
        "they bring into a conversation, or the effect of calling them. You may use names of your own "
        "beside `untrusted`, `private` and `outward`. An item that no pattern matches has labels only "
        "by the annotations of a trusted server: a tool that says `openWorldHint: true` is "
        "`untrusted`, and `outward` too unless it only reads.",
        examples=[{"untrusted": ["web.*", "mail.read_*"], "outward": ["mail.send*"]}],
    )
    flow: Annotated[list[FlowPart], BeforeValidator(no_list)] = Field(
        default=[],
        description="Rules for calls after something with a label was read in the same conversation.",
        examples=[[{"after": "untrusted", "calls": "outward", "then": "confirm"}]],
    )
    decay: Decay | None = Field(
        default=None,
        description="How long a read counts for calls with neither a session nor a trace, by their key; at most "
        "30 days. All files must set the same value. Built in: `30m`.",
        examples=["30m"],
    )
    conversation: Literal["session", "key"] | None = Field(
        default=None,
        description="The conversation of flow rules: with `session`, the session or the trace of a call if it has "
        "one; with `key`, all calls with one key, regardless of sessions and traces. All files must "
        "set the same value. Built in: `session`.",
        examples=["key"],
    )
