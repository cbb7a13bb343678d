"""Windows as the modules of the package see it, and they alone: the standard library and others work as ever.

`install` puts an import hook in place. A module of the package that is imported afterwards finds `sys.platform` to be
`win32` and `os.name` to be `nt`, no POSIX-only module or name, and stand-ins for what Windows has instead: locks of
`msvcrt`, signals, `asyncio.windows_utils`, and the job objects of the kernel (`tests/windows/fake_kernel.py`). The
event loop has no `add_reader` and handles no signals, as on Windows. The package cannot rename, replace or remove a
file that this process has open, nor sync one that it may only read. Paths and programs stay those of Linux.
"""

import asyncio
import builtins
import fcntl
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType
from typing import Any, Final, NoReturn

from tests.windows import fake_kernel

PACKAGE: Final = "aggregator"
ABSENT_MODULES: Final = frozenset(
    {"fcntl", "grp", "posix", "pty", "pwd", "resource", "spwd", "syslog", "termios", "tty", "uvloop"}
)
_OS: Final = (
    "fork forkpty killpg getpgid setpgid getpgrp setsid getsid getuid geteuid getgid getegid getgroups setuid "
    "setgid initgroups nice getpriority setpriority PRIO_PROCESS wait wait3 wait4 waitid WNOHANG WIFEXITED "
    "WIFSIGNALED pidfd_open memfd_create sched_getaffinity sched_setaffinity sysconf confstr fchown fchmod "
    "chown lchown mkfifo mknod pread pwrite preadv pwritev sendfile splice openpty ttyname uname statvfs "
    "fstatvfs O_DIRECTORY O_NOFOLLOW O_CLOEXEC O_NONBLOCK O_SYNC EX_OK EX_SOFTWARE EX_USAGE register_at_fork "
    "posix_spawn posix_fadvise set_blocking get_blocking getxattr setxattr listxattr removexattr sync "
    "fdatasync"
)
_SIGNALS: Final = (
    "SIGHUP SIGUSR1 SIGUSR2 SIGKILL SIGCHLD SIGPIPE SIGALRM SIGSTOP SIGCONT SIGQUIT SIGWINCH SIGTSTP setitimer "
    "getitimer alarm ITIMER_REAL pthread_sigmask sigwait siginterrupt pause"
)
_ASYNCIO: Final = (
    "unix_events SelectorEventLoopPolicy AbstractChildWatcher SafeChildWatcher FastChildWatcher PidfdChildWatcher "
    "ThreadedChildWatcher MultiLoopChildWatcher open_unix_connection start_unix_server"
)
ABSENT_NAMES: Final[Mapping[ModuleType, frozenset[str]]] = {
    os: frozenset(_OS.split()),
    signal: frozenset(_SIGNALS.split()),
    socket: frozenset({"AF_UNIX", "send_fds", "recv_fds", "SO_REUSEPORT", "CMSG_LEN", "SCM_RIGHTS"}),
    select: frozenset({"poll", "epoll", "POLLIN", "POLLOUT", "POLLHUP", "EPOLLIN"}),
    time: frozenset(
        {"clock_gettime", "CLOCK_MONOTONIC", "CLOCK_BOOTTIME", "CLOCK_REALTIME", "tzset", "pthread_getcpuclockid"}
    ),
    asyncio: frozenset(_ASYNCIO.split()),
    sys: frozenset({"getdlopenflags", "setdlopenflags", "abiflags"}),
    subprocess: frozenset(),
}


class Likeness(ModuleType):
    """A module as it is on Windows: without some names, with others, and for the rest the one of this system."""

    def __init__(self, real: ModuleType, absent: frozenset[str], own: Mapping[str, Any]) -> None:
        super().__init__(real.__name__)
        self.__dict__.update(own)
        self.__dict__["_real"], self.__dict__["_absent"] = real, absent
        self.__dict__["_before"] = {}

    def __getattr__(self, name: str) -> Any:
        if name in self.__dict__["_absent"]:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r} on Windows")
        return getattr(self.__dict__["_real"], name)

    def __setattr__(self, name: str, value: Any) -> None:
        real = self.__dict__["_real"]
        self.__dict__["_before"].setdefault(name, getattr(real, name, None))
        setattr(real, name, value)

    def __delattr__(self, name: str) -> None:
        """Put back what a patch replaced: pytest removes what is not in the dictionary of a module."""
        setattr(self.__dict__["_real"], name, self.__dict__["_before"].pop(name))


class PopenInJob(subprocess.Popen[Any]):
    """A program as Windows starts it: its creation flags are noted, and a group of its own stands for its job."""

    def __init__(self, args: Any, *more: Any, creationflags: int = 0, **options: Any) -> None:
        super().__init__(args, *more, **{**options, "start_new_session": bool(creationflags)})
        if creationflags & fake_kernel.CREATE_SUSPENDED:
            fake_kernel.suspended.add(self.pid)


def _lacks(*_: object) -> NoReturn:
    raise NotImplementedError("the event loop of Windows has no such method")


_LACKS: Final[Any] = _lacks


class WindowsLikeLoop(asyncio.SelectorEventLoop):
    """An event loop without what the Proactor of Windows lacks."""

    add_reader = add_writer = add_signal_handler = remove_signal_handler = _LACKS
    create_unix_server = create_unix_connection = _LACKS

    # The standard library's own loop for Linux calls these two.

    def remove_reader(self, fd: Any) -> bool:
        return super().remove_reader(fd) if _asked_by_others() else _lacks()

    def remove_writer(self, fd: Any) -> bool:
        return super().remove_writer(fd) if _asked_by_others() else _lacks()


def _asked_by_others() -> bool:
    return not sys._getframe(2).f_globals["__name__"].startswith(f"{PACKAGE}.")


class _Policy(asyncio.DefaultEventLoopPolicy):
    _loop_factory = WindowsLikeLoop


class _Loader(SourceFileLoader):
    def exec_module(self, module: ModuleType) -> None:
        module.__dict__["__builtins__"] = {**vars(builtins), "__import__": _import}
        super().exec_module(module)


class _Finder(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname.partition(".")[0] != PACKAGE:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _Loader(fullname, spec.loader.path)
        return spec


def _import(
    name: str,
    globals: Mapping[str, object] | None = None,
    locals: Mapping[str, object] | None = None,
    fromlist: Sequence[str] | None = (),
    level: int = 0,
) -> Any:
    root = name.partition(".")[0]
    if level == 0:
        if root in ABSENT_MODULES or name == "asyncio.unix_events":
            raise ModuleNotFoundError(f"No module named {name!r} on Windows", name=name)
        if name in _ONLY_THERE:
            return _ONLY_THERE[name] if fromlist or "." not in name else _SEEN[root]
        if name in _SEEN:
            return _SEEN[name]
    found = builtins.__import__(name, globals, locals, fromlist or (), level)
    return _SEEN.get(root, found) if level == 0 and not fromlist else found


def _module(name: str, **content: Any) -> ModuleType:
    made = ModuleType(name)
    made.__dict__.update(content)
    return made


def _locking(handle: int, mode: int, size: int) -> None:
    """Lock as `msvcrt` does, whose refusal is PermissionError."""
    try:
        fcntl.flock(handle, fcntl.LOCK_UN if mode == 0 else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise PermissionError(13, "Permission denied") from error


def _refuse_open(path: Any) -> None:
    """Raise as Windows does if this process has a file open."""
    try:
        wanted = os.stat(path, follow_symlinks=False)
    except OSError:
        return
    for descriptor in os.listdir("/proc/self/fd"):
        # One that was closed meanwhile is no more there.
        with suppress(OSError):
            found = os.stat(int(descriptor))
            if os.path.samestat(found, wanted):
                break
    else:
        return
    raise PermissionError(13, "The process cannot access the file", str(path))


def _moving(real: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of `os` that renames or removes, which refuses the package what Windows refuses."""

    def moved(path: Any, *more: Any, **options: Any) -> Any:
        caller = sys._getframe(1)
        while caller.f_globals["__name__"] in ("pathlib", "shutil") and caller.f_back is not None:
            caller = caller.f_back
        if caller.f_globals["__name__"].startswith(f"{PACKAGE}."):
            for one in (path, *more):
                _refuse_open(one)
        return real(path, *more, **options)

    return moved


def _fsync(descriptor: int) -> None:
    """Sync as the C runtime of Windows does, which needs the right to write."""
    if fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
        raise OSError(9, "Bad file descriptor")
    os.fsync(descriptor)


def _no_key(*_: object) -> NoReturn:
    raise FileNotFoundError(2, "The system cannot find the file specified")


_OWN: Final[Mapping[str, Mapping[str, Any]]] = {
    "os": {"name": "nt", "O_BINARY": 0, "fsync": _fsync},
    "sys": {"platform": "win32", "getwindowsversion": lambda: (10, 0, 22631)},
    "signal": {"SIGBREAK": 21, "CTRL_C_EVENT": 0, "CTRL_BREAK_EVENT": 1},
    "socket": {"SO_EXCLUSIVEADDRUSE": socket.SO_REUSEADDR},
    "subprocess": {"Popen": PopenInJob},
}
_SEEN: Final = {
    real.__name__: Likeness(real, absent, _OWN.get(real.__name__, {})) for real, absent in ABSENT_NAMES.items()
}
_ONLY_THERE: Final = {
    "asyncio.windows_utils": _module("asyncio.windows_utils", Popen=PopenInJob),
    "msvcrt": _module("msvcrt", locking=_locking, LK_UNLCK=0, LK_LOCK=1, LK_NBLCK=2),
    "winreg": _module("winreg", OpenKey=_no_key, QueryValueEx=_no_key, HKEY_CURRENT_USER=1, HKEY_LOCAL_MACHINE=2),
}


def install() -> None:
    """Show Windows to every module of the package that is imported from now on."""
    assert PACKAGE not in sys.modules, "the package was imported before"
    sys.meta_path.insert(0, _Finder())
    sys.modules[f"{PACKAGE}.system.job_kernel"] = fake_kernel
    for name in ("rename", "replace", "unlink", "remove"):
        setattr(os, name, _moving(getattr(os, name)))
    asyncio.set_event_loop_policy(_Policy())
