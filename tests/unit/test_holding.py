"""What the results of calls under way may take: counted while held, and given back whatever becomes of them."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from aggregator.domain.bounds.result_memory import HeldMemory, ResultMemory

MOST = 100
NAMES = st.sampled_from("ab")


class Calls(RuleBasedStateMachine):
    """Proves: D11. Never more than may be, never a refusal while there is room, nothing lost."""

    def __init__(self) -> None:
        super().__init__()
        self.results = ResultMemory(MOST)
        self.running: list[tuple[HeldMemory, list[tuple[int, str, str]]]] = []

    def held(self, agent: str | None = None, server: str | None = None) -> int:
        taken = (one for _, taken in self.running for one in taken)
        return sum(size for size, a, s in taken if agent in (None, a) and server in (None, s))

    @rule()
    def come(self) -> None:
        self.running.append((HeldMemory(self.results), []))

    @rule(at=st.integers(0, 20), size=st.integers(1, 80), agent=NAMES, server=NAMES)
    def hear(self, at: int, size: int, agent: str, server: str) -> None:
        if self.running:
            holding, taken = self.running[at % len(self.running)]
            fits = self.held() + size <= MOST and max(self.held(agent), self.held(None, server)) + size <= MOST // 2
            assert holding.take(size, agent, server) is fits
            if fits:
                taken.append((size, agent, server))

    @rule(at=st.integers(0, 20))
    def end(self, at: int) -> None:
        if self.running:
            holding, _ = self.running.pop(at % len(self.running))
            holding.end()
            holding.end()
            assert holding.take(10 * MOST, "a", "a"), "what comes after the answer is nobody's"

    @invariant()
    def it_is_counted(self) -> None:
        assert self.results.held == self.held()


test_calls = Calls.TestCase
