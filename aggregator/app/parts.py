"""The construction of the parts that follow the upstreams, but neither wait for them nor call them."""

from dataclasses import dataclass

from aggregator.app.catalog_updates import CatalogUpdates
from aggregator.app.host_cleanup import HostCleanup
from aggregator.config.model import Config
from aggregator.dialects.gateway import Dialects
from aggregator.domain.bounds.slices import Slices
from aggregator.gateway.agent_items import AgentItems
from aggregator.gateway.ask.input_required import InputRequests
from aggregator.gateway.call_log import CallObservers
from aggregator.gateway.calls.failover import Failover
from aggregator.gateway.host_lists import HostLists
from aggregator.gateway.meta.exposure import Exposure
from aggregator.gateway.meta.registry import MetaToolSet
from aggregator.gateway.reads.resource_lookup import ResourceLookup
from aggregator.gateway.reads.subscriptions import Subscriptions
from aggregator.gateway.revocation import RevocableTasks
from aggregator.gateway.views.cache_hints import CacheHints
from aggregator.gateway.views.catalog_builder import CatalogBuilder
from aggregator.gateway.views.current import CurrentCatalog
from aggregator.gateway.views.embeddings import ToolEmbeddings
from aggregator.gateway.views.finder import Finder
from aggregator.gateway.views.list_changed import ListChanges
from aggregator.gateway.views.views import Views
from aggregator.pins.gateway.book import PinBook
from aggregator.replicas.group.replication import Replication
from aggregator.upstream.upstreams import Upstreams


@dataclass(frozen=True, slots=True)
class Lists:
    """The parts that follow the upstreams: snapshots, views of them, and the hosts to notify."""

    slices: Slices
    current: CurrentCatalog
    failover: Failover
    builder: CatalogBuilder
    finder: Finder
    agent_items: AgentItems
    meta_tools: MetaToolSet
    exposure: Exposure
    host_lists: HostLists
    dialects: Dialects | None
    resource_lookup: ResourceLookup
    subscriptions: Subscriptions
    revocable: RevocableTasks
    input_requests: InputRequests
    list_changed: ListChanges
    updates: CatalogUpdates


def build_lists(
    config: Config,
    upstreams: Upstreams,
    views: Views,
    replication: Replication,
    meanings: ToolEmbeddings,
    book: PinBook | None,
    missing: frozenset[str],
    observers: CallObservers,
    *,
    keeps_results: bool,
    stores: bool,
) -> Lists:
    """Return the parts that need the upstreams, but neither wait for them nor call them.

    missing: the features and meta tools that are left out. stores: there is a database.
    """
    slices, current = Slices(), CurrentCatalog()
    failover = Failover(upstreams)
    meta_tools = MetaToolSet(
        read_tool=config.read_tool,
        report_tool=config.report_tool and stores,
        keeps_results=keeps_results,
        left_out=missing,
    )
    prefixes = [server.prefix for server in config.servers]
    builder = CatalogBuilder(upstreams, prefixes, config.name_limit, meta_tools.names, failover, slices, book)
    builder.hides_skills = "skills" in missing
    finder = Finder(config, upstreams, views, current, failover, slices, meanings, book)
    agent_items = AgentItems(views, current, upstreams.by_prefix, slices)
    exposure = Exposure(meta_tools, config, finder.explains)
    dialects = Dialects() if "dialects" not in missing else None
    host_lists = HostLists(config, views, current, agent_items, exposure, CacheHints(upstreams), slices, dialects)
    resource_lookup = ResourceLookup(upstreams, upstreams.by_prefix, agent_items)
    subscriptions = Subscriptions(upstreams, resource_lookup)
    revocable = RevocableTasks()
    input_requests = InputRequests(revocable, replication)
    list_changed = ListChanges(host_lists, HostCleanup(subscriptions, input_requests, upstreams, observers))
    return Lists(
        slices=slices,
        current=current,
        failover=failover,
        builder=builder,
        finder=finder,
        agent_items=agent_items,
        meta_tools=meta_tools,
        exposure=exposure,
        host_lists=host_lists,
        dialects=dialects,
        resource_lookup=resource_lookup,
        subscriptions=subscriptions,
        revocable=revocable,
        input_requests=input_requests,
        list_changed=list_changed,
        updates=CatalogUpdates(builder, current, failover, finder, list_changed, book),
    )
