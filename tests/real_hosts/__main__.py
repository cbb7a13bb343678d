"""`python -m tests.real_hosts`: real hosts with the wheel of this tree and a scripted model.

Ends with 1 where a host did not do what is expected of it, with 69 where no host is there.
"""

import argparse
import json
import shutil
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Final

from tests.end_to_end.server_harness import ROOT
from tests.real_hosts.hosts import HOSTS, NotInstalled
from tests.real_hosts.stranger import Failed, Stranger, build_wheel
from tests.real_hosts.trials import TRIALS, Outcome, Place

_INSTALLED: Final = ROOT / ".real-hosts"
_UNAVAILABLE: Final = 69  # EX_UNAVAILABLE of sysexits.h


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.real_hosts", description=__doc__)
    parser.add_argument("--host", action="append", choices=[host.id for host in HOSTS], help="may be repeated")
    parser.add_argument("--trial", action="append", choices=[*TRIALS], help="may be repeated")
    parser.add_argument("--python", default=sys.executable, help="the interpreter of the stranger")
    parser.add_argument("--wheel", type=Path, help="this one instead of one that is built from the tree")
    parser.add_argument("--venv", type=Path, help="an environment into which it is installed already")
    parser.add_argument("--hosts-in", type=Path, default=_INSTALLED, help="where npm installed the hosts")
    parser.add_argument("--keep", action="store_true", help="keep the homes, and say where they are")
    parser.add_argument("--json", action="store_true", help="print the outcomes for programs")
    return parser.parse_args()


def _tell(outcome: Outcome) -> None:
    said = "good" if outcome.good else "BAD"
    figures = f"{outcome.seconds:5.1f} s  {len(outcome.names)} tools, {outcome.tokens} tokens"
    print(f"  {outcome.trial:<10} {said:<5} {figures}")
    told = [] if outcome.good else [f"the model was told: {result}" for result in outcome.results]
    for line in (*outcome.names, *outcome.remarks, *told):
        print(f"    {line}")


def _venv(options: argparse.Namespace, folder: Path) -> Path:
    """Install the wheel into a new environment, and return that."""
    wheel = options.wheel.resolve() if options.wheel else build_wheel(folder)
    first, seconds = Stranger.installed(folder / "first", wheel, options.python)
    if not options.json:
        print(f"{wheel.name} on {options.python}: pip install took {seconds:.1f} s")
    return first.venv


def _all(options: argparse.Namespace, folder: Path) -> list[Outcome]:
    """Run the trials that were asked for."""
    venv = options.venv.resolve() if options.venv else _venv(options, folder)
    outcomes = []
    for host in HOSTS:
        if options.host and host.id not in options.host:
            continue
        try:
            host.command(options.hosts_in)
        except NotInstalled as error:
            print(f"real hosts: NOT RUN with {host.id}: {error}", file=sys.stderr)
            continue
        if not options.json:
            print(f"{host.id} {host.version(options.hosts_in)}")
        for name, trial in TRIALS.items():
            if options.trial and name not in options.trial:
                continue
            place = Place(host, options.hosts_in, Stranger.empty(folder / f"{host.id}-{name}", venv))
            try:
                outcome = trial(place)
            except Failed as error:
                outcome = Outcome(name, host.id, False, remarks=[str(error)])
            outcomes.append(outcome)
            if not options.json:
                _tell(outcome)
    return outcomes


def main() -> int:
    """Run, print what was found, and say by the exit code whether that will do."""
    options = _options()
    folder = Path(tempfile.mkdtemp(prefix="real-hosts-"))
    try:
        outcomes = _all(options, folder)
    except Failed as error:
        print(f"real hosts: {error}", file=sys.stderr)
        return 1
    finally:
        if options.keep:
            print(f"kept: {folder}", file=sys.stderr)
        else:
            shutil.rmtree(folder, ignore_errors=True)
    if options.json:
        print(json.dumps([asdict(outcome) for outcome in outcomes], ensure_ascii=False, indent=2))
    if not outcomes:
        print("real hosts: NOT RUN, nothing was checked", file=sys.stderr)
        return _UNAVAILABLE
    bad = sum(not outcome.good for outcome in outcomes)
    print(f"real hosts: {len(outcomes) - bad} good, {bad} bad", file=sys.stderr)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
