"""The recording of calls (audit, metrics, tracing), as the benchmarks vary it."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from benchmarks.systems import free_port, started

SENT: Final = "OTEL_EXPORTER_OTLP_ENDPOINT"


@dataclass(frozen=True, slots=True)
class Recording:
    """A variant of recording. `audit` is the durability of rows, None without rows."""

    name: str
    audit: str | None = None
    metrics: bool = False
    tracing: bool = False

    @property
    def settings(self) -> dict[str, Any]:
        """The part of the configuration that says so."""
        return {"audit": {"enabled": self.audit is not None, "durability": self.audit or "default"}}

    @property
    def folder(self) -> str:
        """A name for its files."""
        return "-".join(self.name.replace(",", "").split())

    def variables(self, url: str) -> dict[str, str]:
        """The environment that says so; `url` is where spans go."""
        return {SENT: url, "OTEL_BSP_MAX_QUEUE_SIZE": "100000"} if self.tracing else {}


OFF: Final = Recording("off")


@contextmanager
def receiver() -> Iterator[str]:
    """Run a receiver that discards spans."""
    port = free_port()
    with started([sys.executable, "-m", "benchmarks.otlp_sink", str(port)], port):
        yield f"http://127.0.0.1:{port}"
