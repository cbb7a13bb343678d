"""The reaper: a small process that outlives the aggregator by a moment and ends the processes that it left.

Run as `python -I -S reaper.py MARK`. Reads `+PGID` and `-PGID` lines on stdin; when stdin ends, however the aggregator
died (`kill -9` included), every process group still listed is terminated, then killed, and so is every process that
left its group but carries the mark in its environment, where the system shows that (Linux).

A line `~PGID TIME MARK` has a group, and all that carries its mark, killed at a moment of `clock`, unless a later line
puts it off: what another machine may run by then must not run here, also where the aggregator hangs.
"""

import os
import select
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
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    groups: set[int] = set()
    fenced: dict[int, tuple[float, str]] = {}
    rest = b""
    while True:
        next_end = min((when for when, _ in fenced.values()), default=None)
        wait = None if next_end is None else max(0.0, next_end - clock())
        if select.select([0], [], [], wait)[0]:
            data = os.read(0, 65_536)
            if not data:
                break
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                _take(line, groups, fenced)
        for group in [group for group, (when, _) in fenced.items() if when <= clock()]:
            _signal_all({group}, signal.SIGKILL)
            mark = fenced.pop(group)[1]
            # An empty mark would be that of every server there is.
            signal_each(marked(mark) if mark else [], signal.SIGKILL)
    if groups and _signal_all(groups, signal.SIGTERM):
        deadline = time.monotonic() + GRACE
        while time.monotonic() < deadline and _signal_all(groups, 0):
            time.sleep(_POLL)
        _signal_all(groups, signal.SIGKILL)
    sweep(sys.argv[1], GRACE)


def clock() -> float:
    """Return seconds of the clock that goes on while the machine sleeps, as `replicas/leases.py` reads it."""
    if sys.platform == "darwin":
        return time.clock_gettime(time.CLOCK_MONOTONIC)
    boottime = getattr(time, "CLOCK_BOOTTIME", None)
    return time.clock_gettime(boottime) if boottime is not None else time.monotonic()


def _take(line: bytes, groups: set[int], fenced: dict[int, tuple[float, str]]) -> None:
    """Take one line of the aggregator."""
    kind, (number, *more) = line[:1], line[1:].split(b" ")
    group = int(number)
    if kind == b"+":
        groups.add(group)
    elif kind == b"-":
        groups.discard(group)
        fenced.pop(group, None)
    else:
        fenced[group] = float(more[0]), os.fsdecode(more[1])


def sweep(mark: str, grace: float) -> int:
    """Terminate, then kill, every process whose mark begins with `mark`; return how many there were.

    Takes at most `grace` seconds.
    """
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
    """Return all processes with a mark, by mark; none where the system hides the environment of processes."""
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
