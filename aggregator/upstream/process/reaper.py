"""The reaper: a small process that outlives the aggregator by a moment and ends the processes that it left.

Run as `python -I -S reaper.py MARK`. Reads `+PGID` and `-PGID` lines on stdin; when stdin ends, however the aggregator
died (`kill -9` included), every process group still listed is terminated, then killed, and so is every process that
left its group but carries the mark in its environment, if the system shows that (Linux). A line
`@PATH` names a folder in which containers are noted, which are removed then: the process becomes
`container_removal.py`, so that one without containers imports little and starts fast.
"""

import os
import signal
import sys
import time

GRACE = 1.0
# The environment variable of every server, which its own child processes inherit.
VARIABLE = "AGGREGATOR_STARTED_BY"

_POLL = 0.02
# Several rounds, since a process may start another one just before it is killed.
_ROUNDS = 3


def main() -> None:
    if sys.platform == "win32":
        raise NotImplementedError
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    groups: set[int] = set()
    containers: str | None = None
    rest = b""
    while True:
        data = os.read(0, 65_536)
        if not data:
            break
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            kind, said = line[:1], line[1:]
            if kind == b"@":
                containers = os.fsdecode(said)
            elif kind == b"+":
                groups.add(int(said))
            else:
                groups.discard(int(said))
    if groups and _signal_all(groups, signal.SIGTERM):
        deadline = time.monotonic() + GRACE
        while time.monotonic() < deadline and _signal_all(groups, 0):
            time.sleep(_POLL)
        _signal_all(groups, signal.SIGKILL)
    sweep(sys.argv[1], GRACE)
    if containers is not None:
        program = os.path.join(os.path.dirname(__file__), "container_removal.py")
        os.execv(sys.executable, [sys.executable, "-I", "-S", program, containers])  # noqa: S606 - in our place


def sweep(mark: str, grace: float) -> int:
    """Terminate, then kill, every process whose mark begins with `mark`; return how many there were.

    Takes at most `grace` seconds.
    """
    if sys.platform == "win32":
        raise NotImplementedError
    found = marked(mark)
    signal_each(found, signal.SIGTERM)
    deadline = time.monotonic() + grace
    while found and time.monotonic() < deadline and marked(mark):
        time.sleep(_POLL)
    for _ in range(_ROUNDS if found else 0):
        signal_each(marked(mark), signal.SIGKILL)
    return len(found)


def marked(mark: str) -> list[int]:
    """Return the processes whose mark begins with `mark`."""
    return [process for found, processes in carriers().items() if found.startswith(mark) for process in processes]


def carriers() -> dict[str, list[int]]:
    """Return all processes with a mark, by mark; none if the system hides the environment of processes."""
    wanted = f"\0{VARIABLE}=".encode()
    found: dict[str, list[int]] = {}
    try:
        entries = os.listdir("/proc")
    except OSError:
        return {}
    for entry in entries:
        if not entry.isdecimal():
            continue
        try:
            with open(f"/proc/{entry}/environ", "rb") as file:
                _, carries, rest = (b"\0" + file.read()).partition(wanted)
        except OSError:
            continue
        if carries:
            mark = os.fsdecode(rest.partition(b"\0")[0])
            found.setdefault(mark, []).append(int(entry))
    return found


def signal_each(processes: list[int], number: int) -> None:
    """Send a signal to every process that is still there and ours."""
    for process in processes:
        try:
            os.kill(process, number)
        except (ProcessLookupError, PermissionError):
            continue


def _signal_all(groups: set[int], number: int) -> bool:
    """Send a signal to every group; return True if any still had a member."""
    if sys.platform == "win32":
        raise NotImplementedError
    alive = False
    for group in groups:
        try:
            os.killpg(group, number)
            alive = True
        except (ProcessLookupError, PermissionError):
            continue
    return alive


if __name__ == "__main__":
    main()
