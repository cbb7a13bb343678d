"""The construction of the program: it builds every part once, from the parts that it uses.

Rule: parts get each other by constructor argument, so the order below is the order of dependencies: first the parts
that upstreams change, then the supervisor, then the parts that wait for upstreams or call them.
"""

import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from pkgutil import resolve_name
from typing import Final, Protocol

from aggregator.accounts.ask import Connecting, MissingAccounts
from aggregator.accounts.grants.ports import RunningGrants, TokenEvents
from aggregator.app.app import App
from aggregator.app.audit_events import AuditEvents
from aggregator.app.catalog_sync import CatalogSync
from aggregator.app.features import FEATURES, Feature, left_out, refuse_missing
from aggregator.app.hook_parts import HookParts
from aggregator.app.key_sync import KeySync
from aggregator.app.parts import Lists, build_lists
from aggregator.app.policies import read_policies, trusted_servers
from aggregator.app.reload.config_reload import ConfigReload, ConfigSource
from aggregator.app.reload.group_facts import POLICIES, GroupFacts
from aggregator.app.reload.policy_reload import PolicyChanges, PolicyReload
from aggregator.app.reload.reconfiguration import Reconfiguration
from aggregator.app.retention import Retention
from aggregator.app.status import Status
from aggregator.app.telemetry import CallTelemetry
from aggregator.app.upstream_changes import UpstreamChanges
from aggregator.code.programs import RunPrograms
from aggregator.config.model import Config
from aggregator.config.server_config import ServerConfig
from aggregator.domain.bounds.kept_work import KeptWork
from aggregator.gateway.access import Access
from aggregator.gateway.admission import admission_of
from aggregator.gateway.ask.approval import ApprovalStep
from aggregator.gateway.browse import ToolBrowser
from aggregator.gateway.call_log import CallLog
from aggregator.gateway.calls.delivery import ResultDelivery
from aggregator.gateway.calls.direct import DirectCalls
from aggregator.gateway.calls.pipeline import Pipeline
from aggregator.gateway.calls.plan import CallPlans
from aggregator.gateway.calls.rate_limits import RateLimits
from aggregator.gateway.calls.relay import Relay
from aggregator.gateway.calls.resolve import Resolver
from aggregator.gateway.calls.validate import Checker
from aggregator.gateway.dispatcher import Dispatcher
from aggregator.gateway.drain import Drain
from aggregator.gateway.hooks import CallHooks
from aggregator.gateway.meta.kept_answers import KeptAnswers
from aggregator.gateway.meta.plain_calls import PlainCalls
from aggregator.gateway.meta.registry import MetaTools
from aggregator.gateway.playground.playground import Playground
from aggregator.gateway.reads.completion import Completion
from aggregator.gateway.reads.listen import ListenStreams
from aggregator.gateway.reads.permission import ItemPermission
from aggregator.gateway.reads.prompts import Prompts
from aggregator.gateway.reads.recorded import RecordedReads
from aggregator.gateway.reads.resources import Resources
from aggregator.gateway.startup import StartupWait
from aggregator.gateway.views.embeddings import ToolEmbeddings
from aggregator.gateway.views.views import Views
from aggregator.notify.app import NoticeEvents
from aggregator.pins.app.first_lists import FirstLists
from aggregator.pins.app.news import PinNews
from aggregator.pins.app.sync import PinSync
from aggregator.pins.gateway.book import PinBook
from aggregator.policy.live import LivePolicies
from aggregator.redaction.redactor import Redactor
from aggregator.replicas.group.replication import Replication
from aggregator.results.gateway.keeper import ResultKeeper
from aggregator.results.gateway.showing import LargeResults
from aggregator.skills.files import SkillFiles
from aggregator.skills.meta_tools import SkillReader
from aggregator.skills.reads import Skills
from aggregator.storage.lazy_database import LazyDatabase
from aggregator.storage.locate import base_path
from aggregator.storage.records import APPROVALS_SUBJECT, KEYS_SUBJECT, PINS_SUBJECT
from aggregator.telemetry.hops import INSIDE, NetworkHop, hop_to
from aggregator.tool_reports.book import ReportBook
from aggregator.upstream.credentials import CredentialsSource
from aggregator.upstream.late_secrets import LateSecrets
from aggregator.upstream.process.reaper_pipe import Reaper
from aggregator.upstream.supervisor import Supervisor
from aggregator.upstream.upstreams import Upstreams

# Loaded if a server has `auth`: `cryptography` takes 50 ms of a start.
_BUILD_GRANTS: Final = "aggregator.accounts.app.open_grants:build_grants"


class Accounts(CredentialsSource, Connecting, Protocol):
    """The accounts at upstream servers: their tokens, and the way to connect one."""


class OwnGrants(RunningGrants, Accounts, Protocol):
    """The grants of this process."""


# Makes the grants of a process.
BuildGrants = Callable[
    [Config, Callable[[str], ServerConfig | None], LazyDatabase, LateSecrets, Redactor, TokenEvents], OwnGrants
]


def build_app(
    config: Config,
    policies: Path | LivePolicies | None = None,
    storage: str | None = None,
    *,
    keeps_records: bool = False,
    redactor: Redactor | None = None,
    source: ConfigSource | None = None,
    accounts: Accounts | None = None,
    lock: Path | None = None,
    features: Sequence[Feature] = FEATURES,
) -> App:
    """Return the app for a configuration; nothing runs yet.

    `policies` is the folder of the policy files, or its content; without it everything is allowed. `storage` is the URL
    of the database; without it no approval can be queued. With `keeps_records` the database also gets the definitions
    of upstreams, for the next start, and a row of every call; and notices are sent. `redactor` removes secrets from all
    output. `source` is the origin of `config`, watched for changes. `accounts` has the tokens for servers with `auth`.
    `lock` is the possible path of the lock file of pins. `features` are built into the program.
    """
    missing = left_out(features)
    redactor = redactor or Redactor()
    kept_at = storage if keeps_records else None
    live = read_policies(policies, named=config.names_policies) if isinstance(policies, Path) else policies
    views = Views(live, trusted_servers(config))
    refuse_missing(missing, config, views, storage)
    database = LazyDatabase(storage, config.audit.chain_key)
    replication = Replication(config.replicas, database)
    upstreams = Upstreams()
    telemetry = CallTelemetry(
        config.audit,
        redactor,
        replication.audit_rows if kept_at is not None else None,
        base_path(kept_at, os.environ),
        replication.membership,
        partial(_hop_to, upstreams),
    )
    call_log = CallLog(telemetry.observers, Drain())
    reaper = Reaper()
    tells = keeps_records and "notify" not in missing
    notices = NoticeEvents(config, redactor, reaper, telemetry.observers, tells=tells)
    events = AuditEvents(telemetry, upstreams, notices)
    access = Access(views, events)
    approval = ApprovalStep(database, redactor, events, replication)
    key_sync = KeySync(access, views, database)
    meanings = ToolEmbeddings(database)
    # Nothing is pinned without a place to store it.
    pinned = "pins" not in missing and (kept_at is not None or (lock is not None and lock.exists()))
    book = PinBook() if pinned else None
    keeps_results = storage is not None and "results" not in missing
    lists = build_lists(
        config,
        upstreams,
        views,
        replication,
        meanings,
        book,
        missing,
        telemetry.observers,
        keeps_results=keeps_results,
        stores=storage is not None,
    )
    reports = ReportBook(database, redactor)
    keeper = ResultKeeper(database if keeps_results else None, config.results)
    changes = UpstreamChanges(lists.builder, lists.updates, lists.subscriptions, events, telemetry.observers)
    pin_sync = None
    if book is not None:
        kept = database if kept_at is not None else LazyDatabase(None, None)
        news, rebuild, keeps = PinNews(events), lists.updates.rebuild, kept_at is not None
        first = FirstLists(base_path(kept_at, os.environ) if keeps else None)
        pin_sync = changes.pins = PinSync(
            book, lists.builder, upstreams, kept, lock, news, rebuild, awaits_kept=keeps, first=first
        )
        database.entries = pin_sync.entries
    restores = kept_at is not None
    secrets = LateSecrets(config.secrets.timeout)
    grants: OwnGrants | None = None
    signs_in = storage is not None and "accounts" not in missing and any(server.auth for server in config.servers)
    if accounts is None and signs_in:
        build_grants: BuildGrants = resolve_name(_BUILD_GRANTS)
        accounts = grants = build_grants(config, upstreams.config_of, database, secrets, redactor, events)
    background = KeptWork()
    supervisor = Supervisor(
        config.servers,
        upstreams,
        changes,
        lists.slices,
        redactor,
        reaper,
        secrets=secrets,
        restores=restores,
        accounts=accounts,
        kept=background,
    )
    if grants is not None:
        grants.on_change = supervisor.account_changed
    catalog_sync = (
        CatalogSync(supervisor, kept_at, database, changes.catalog_changed, events) if kept_at is not None else None
    )
    if catalog_sync is not None and pin_sync is not None:
        catalog_sync.on_restored = pin_sync.take_kept
        catalog_sync.may_replace = pin_sync.has_baselines
    hook_parts = HookParts(database if storage is not None else None, replication, call_log, views)
    hooks = [feature.build_hook(hook_parts) for feature in features if feature.build_hook is not None]
    call_hooks = CallHooks([built.hook for built in hooks])
    gateway = _build_gateway(
        config, lists, supervisor, views, call_log, approval, live, replication, accounts, keeper, call_hooks, reports
    )
    reconfiguration = Reconfiguration(
        config, supervisor, gateway, lists.updates, views, access, telemetry, events, notices, catalog_sync, pin_sync
    )
    config_reload = ConfigReload(source, redactor, reconfiguration, events) if source is not None else None
    policy_reload, facts = None, GroupFacts(replication, live, reconfiguration)
    facts.hasten(KEYS_SUBJECT, key_sync)
    facts.hasten(APPROVALS_SUBJECT, approval.watch)
    if pin_sync is not None:
        facts.hasten(PINS_SUBJECT, pin_sync)
    for built in hooks:
        if built.subject is not None and built.follows is not None:
            facts.hasten(built.subject, built.follows)
    if live is not None:
        observer = PolicyChanges(live, events, key_sync, lists.list_changed)
        policy_reload = PolicyReload(live, lists.current, views, observer, facts)
        facts.hasten(POLICIES, policy_reload)
    status = Status(
        upstreams,
        gateway,
        lists.builder,
        lists.failover,
        access,
        telemetry,
        notices,
        live=live,
        catalog_sync=catalog_sync,
        config_reload=config_reload,
        policy_reload=policy_reload,
        facts=facts,
        finder=lists.finder,
        kept=background,
        book=book,
        pin_sync=pin_sync,
    )
    return App(
        supervisor=supervisor,
        gateway=gateway,
        answers=approval.watch,
        browser=ToolBrowser(views, lists.current, lists.finder, lists.host_lists, lists.meta_tools, lists.slices),
        access=access,
        failover=lists.failover,
        updates=lists.updates,
        live=live,
        telemetry=telemetry,
        database=database,
        replication=replication,
        retention=Retention(database, config.audit) if kept_at is not None else None,
        status=status,
        kept=background,
        reconfiguration=reconfiguration,
        events=events,
        notices=notices,
        key_sync=key_sync,
        hooks=hooks,
        catalog_sync=catalog_sync,
        policy_reload=policy_reload,
        config_reload=config_reload,
        grants=grants,
        pin_sync=pin_sync,
    )


def _hop_to(upstreams: Upstreams, server: str) -> NetworkHop:
    """Return the hop to a server, by its current configuration."""
    config = upstreams.config_of(server)
    return hop_to(config.url, config.command) if config is not None else INSIDE


def _build_gateway(
    config: Config,
    lists: Lists,
    supervisor: Supervisor,
    views: Views,
    call_log: CallLog,
    approval: ApprovalStep,
    live: LivePolicies | None,
    replication: Replication,
    accounts: Accounts | None,
    keeper: ResultKeeper,
    hooks: CallHooks,
    reports: ReportBook,
) -> Dispatcher:
    """Return the gateway, with the parts that wait for upstreams or call them."""
    agent_items, failover = lists.agent_items, lists.failover
    startup, missing = StartupWait(supervisor, config), MissingAccounts(accounts)
    own = lists.meta_tools.names
    resolver = Resolver(
        supervisor, views, config.startup_wait, failover.covers, lists.slices, lists.current, missing, own
    )
    rate_limits = RateLimits(replication.usage)
    relay = Relay(call_log, lists.input_requests, rate_limits, resolver, missing)
    checker, large_results, told = Checker(), LargeResults(keeper), config.results.output_schemas
    plans = CallPlans(
        supervisor.upstreams, resolver, views, failover, checker, hooks, tells_schemas=told, dialects=lists.dialects
    )
    delivery = ResultDelivery(checker, large_results, agent_items)
    pipeline = Pipeline(
        supervisor.upstreams,
        resolver,
        approval,
        call_log,
        lists.input_requests,
        failover,
        relay,
        rate_limits,
        checker,
        plans,
        large_results,
        delivery,
        hooks,
    )
    pipeline.reconfigure(config)
    drain = call_log.drain
    kept_answers = KeptAnswers(lists.finder, views, supervisor)
    direct = DirectCalls(
        supervisor=supervisor,
        views=views,
        call_log=call_log,
        drain=drain,
        resolver=resolver,
        plans=plans,
        delivery=delivery,
        pipeline=pipeline,
        rate_limits=rate_limits,
        inner_calls=PlainCalls(lists.meta_tools, lists.finder, resolver, supervisor, kept_answers),
    )
    programs = RunPrograms(config, views, lists.input_requests, call_log, large_results, hooks)
    permission = ItemPermission(approval, hooks)
    lookup, files = lists.resource_lookup, SkillFiles(agent_items)
    resources = Resources(lookup, startup, agent_items, permission, relay, keeper, files)
    prompts = Prompts(supervisor, startup, agent_items, permission, relay)
    completion = Completion(agent_items, resources, prompts, permission, relay)
    skills = Skills(lookup, startup, agent_items, permission, relay, files, lists.slices)
    reads = RecordedReads(call_log, drain, agent_items, resources, prompts, completion, skills)
    skill_reader = SkillReader(reads, lists.input_requests, large_results)
    playground = Playground(
        live,
        supervisor.upstreams,
        views,
        lists.current,
        lists.host_lists,
        lists.exposure,
        lists.finder,
        pipeline.checker,
        rate_limits,
        lists.slices,
    )
    return Dispatcher(
        supervisor=supervisor,
        startup=startup,
        views=views,
        current=lists.current,
        list_changed=lists.list_changed,
        call_log=call_log,
        admission=admission_of(config.http),
        drain=drain,
        revocable=lists.revocable,
        input_requests=lists.input_requests,
        resolver=resolver,
        pipeline=pipeline,
        direct=direct,
        finder=lists.finder,
        meta_tools=lists.meta_tools,
        meta=MetaTools(
            lists.meta_tools,
            lists.finder,
            resolver,
            pipeline,
            call_log,
            programs,
            skill_reader,
            lists.dialects,
            reports,
            kept_answers,
        ),
        dialects=lists.dialects,
        exposure=lists.exposure,
        host_lists=lists.host_lists,
        agent_items=agent_items,
        resources=resources,
        reads=reads,
        subscriptions=lists.subscriptions,
        playground=playground,
        listening=ListenStreams(lists.list_changed, lists.subscriptions, agent_items, lookup, startup, permission),
        group=replication,
    )
