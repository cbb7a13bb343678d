"""Admission control: how many sessions, streams and requests there may be at one time, in all and of one agent.

Law: nothing waits here. A refusal comes at once and costs less than the request it refuses.
"""

from collections import Counter
from collections.abc import Mapping, Sized
from types import TracebackType
from typing import Final, Literal, Self

from aggregator.config.settings import HttpConfig
from aggregator.domain.errors import HostError
from aggregator.domain.principal import Principal

Kind = Literal["sessions", "streams", "pending"]

# Outside the range that JSON-RPC reserves; equal to the HTTP status.
TOO_MANY_OF_ONE: Final = 429
TOO_MANY: Final = 503

_NOUNS: Final[Mapping[Kind, str]] = {
    "sessions": "open sessions",
    "streams": "open event streams",
    "pending": "requests being worked on",
}
# The part of each bound that one agent with a key may have.
AGENT_SHARE: Final = 0.5
# Seconds after which another attempt may succeed.
_RETRY_AFTER: Final[Mapping[Kind, int]] = {"sessions": 30, "streams": 10, "pending": 1}


class TooMany(HostError):
    """The refusal of one too many. `code` is also the HTTP status; `retry_after` is in seconds."""

    def __init__(self, kind: Kind, most: int, agent_id: str | None) -> None:
        self.retry_after = _RETRY_AFTER[kind]
        field = f"http.max_{kind}"
        whose = "The aggregator has" if agent_id is None else f"Agent {agent_id!r} has"
        by = f"`{field}`" if agent_id is None else f"half of `{field}`"
        said = f"{whose} {most} {_NOUNS[kind]}, as many as may be ({by}). Try again in {self.retry_after} s."
        super().__init__(
            TOO_MANY if agent_id is None else TOO_MANY_OF_ONE,
            said,
            {"limit": kind, "most": most, "field": field, "retryAfter": self.retry_after},
        )


class Slot:
    """One place held by one agent; given back once, by `release` or at the end of `with`."""

    __slots__ = ("_admission", "_agent", "_places")

    def __init__(self, admission: "Admission", places: "_Places", agent: str | None) -> None:
        self._admission = admission
        self._places: _Places | None = places
        self._agent = agent

    def change(self, kind: Kind) -> None:
        """Exchange this place for one of another kind.

        Raises:
            TooMany: there is none; this place is kept.
        """
        places = self._admission._take(kind, self._agent)
        self.release()
        self._places = places

    def release(self) -> None:
        """Give the place back. May be called twice."""
        # Every repeated call passes here.
        places, agent = self._places, self._agent
        if places is None:
            return
        self._places = None
        places.taken -= 1
        if agent is not None:
            left = places.of_agent[agent] - 1
            if left:
                places.of_agent[agent] = left
            else:
                del places.of_agent[agent]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


class _Places:
    """The places of one kind: how many are `taken` in all and by each agent with a key, and how many may be."""

    __slots__ = ("most", "of_agent", "share", "taken")

    def __init__(self, most: int, share: int) -> None:
        self.most = most
        self.share = share
        self.taken = 0
        self.of_agent: dict[str, int] = {}


class Admission:
    """Limits for each kind of place. An agent with a key may hold `share` of each limit, others any part.

    `refused` counts refusals by limit, also for limits enforced elsewhere. `connections` are the hosts' connections,
    which wait for their place before they are identified.
    """

    def __init__(self, most: Mapping[Kind, int], share: float) -> None:
        self.refused: Counter[str] = Counter()
        self.connections: Sized = ()
        self._places = {kind: _Places(number, max(1, int(number * share))) for kind, number in most.items()}

    def __repr__(self) -> str:
        return f"<Admission {', '.join(f'{of.taken} of {of.most} {kind}' for kind, of in self._places.items())}>"

    @property
    def in_use(self) -> dict[str, int]:
        """The number of places in use, by kind, and of connections."""
        return {**{kind: of.taken for kind, of in self._places.items()}, "connections": len(self.connections)}

    def acquire(self, kind: Kind, principal: Principal) -> Slot:
        """Take a place.

        Raises:
            TooMany: there is none.
        """
        # Requests without a key or a token all come from this machine and cannot be distinguished.
        agent = principal.agent_id if _is_known(principal) else None
        return Slot(self, self._take(kind, agent), agent)

    def acquire_if_free(self, kind: Kind, principal: Principal) -> Slot | None:
        """Take a place as `acquire` does; None if there is none, which counts no refusal."""
        # Every repeated call passes here: one function, and no exception.
        places, agent = self._places[kind], None
        if places.taken >= places.most:
            return None
        if principal.key_id is not None or principal.token is not None:
            agent = principal.agent_id
            of_agent = places.of_agent.get(agent, 0)
            if of_agent >= places.share:
                return None
            places.of_agent[agent] = of_agent + 1
        places.taken += 1
        return Slot(self, places, agent)

    def _take(self, kind: Kind, agent: str | None) -> _Places:
        places = self._places[kind]
        if places.taken >= places.most:
            self.refused[kind] += 1
            raise TooMany(kind, places.most, None)
        if agent is not None:
            of_agent = places.of_agent.get(agent, 0)
            if of_agent >= places.share:
                self.refused[f"{kind}_of_agent"] += 1
                raise TooMany(kind, places.share, agent)
            places.of_agent[agent] = of_agent + 1
        places.taken += 1
        return places


def admission_of(http: HttpConfig) -> Admission:
    """Return the admission control with the bounds of a configuration."""
    bounds: dict[Kind, int] = {"sessions": http.max_sessions, "streams": http.max_streams, "pending": http.max_pending}
    return Admission(bounds, AGENT_SHARE)


def _is_known(principal: Principal) -> bool:
    """Return whether a key or a token says which agent it is."""
    return principal.key_id is not None or principal.token is not None
