"""The functions of Windows for job objects, called through ctypes. Each raises OSError if the system refuses.

Rule: handles are not inheritable, so that no child holds a job open.
"""

import ctypes
import sys
from ctypes import wintypes
from typing import Any, Final

# winnt.h: the rights to put a process into a job, to end it and to let it go on.
_ACCESS: Final = 0x0100 | 0x0001 | 0x0800
_EXTENDED_LIMITS: Final = 9
_KILL_ON_JOB_CLOSE: Final = 0x2000
# The exit code of what is ended here, as of TerminateProcess in Python's own `kill`.
_ENDED: Final = 1


class _BasicLimits(ctypes.Structure):
    _fields_ = (
        ("per_process_user_time_limit", ctypes.c_int64),
        ("per_job_user_time_limit", ctypes.c_int64),
        ("limit_flags", wintypes.DWORD),
        ("minimum_working_set_size", ctypes.c_size_t),
        ("maximum_working_set_size", ctypes.c_size_t),
        ("active_process_limit", wintypes.DWORD),
        ("affinity", ctypes.c_size_t),
        ("priority_class", wintypes.DWORD),
        ("scheduling_class", wintypes.DWORD),
    )


class ExtendedLimits(ctypes.Structure):
    """JOBOBJECT_EXTENDED_LIMIT_INFORMATION."""

    _fields_ = (
        ("basic", _BasicLimits),
        ("io_counters", ctypes.c_uint64 * 6),
        ("process_memory_limit", ctypes.c_size_t),
        ("job_memory_limit", ctypes.c_size_t),
        ("peak_process_memory_used", ctypes.c_size_t),
        ("peak_job_memory_used", ctypes.c_size_t),
    )


_kernel32: Any = None
_ntdll: Any = None

if sys.platform == "win32":
    _kernel32 = ctypes.WinDLL("kernel32", use_last_error=True)
    _kernel32.CreateJobObjectW.restype = wintypes.HANDLE
    _kernel32.CreateJobObjectW.argtypes = (wintypes.LPVOID, wintypes.LPCWSTR)
    _kernel32.SetInformationJobObject.argtypes = (wintypes.HANDLE, ctypes.c_int, wintypes.LPVOID, wintypes.DWORD)
    _kernel32.AssignProcessToJobObject.argtypes = (wintypes.HANDLE, wintypes.HANDLE)
    _kernel32.TerminateJobObject.argtypes = (wintypes.HANDLE, wintypes.UINT)
    _kernel32.OpenProcess.restype = wintypes.HANDLE
    _kernel32.OpenProcess.argtypes = (wintypes.DWORD, wintypes.BOOL, wintypes.DWORD)
    _kernel32.CloseHandle.argtypes = (wintypes.HANDLE,)
    _ntdll = ctypes.WinDLL("ntdll")
    _ntdll.NtResumeProcess.argtypes = (wintypes.HANDLE,)


def create_job() -> int:
    """Return the handle of a new job whose processes end when the handle is closed."""
    handle = _kernel32.CreateJobObjectW(None, None)
    if not handle:
        raise _error()
    limits = ExtendedLimits()
    limits.basic.limit_flags = _KILL_ON_JOB_CLOSE
    size = ctypes.sizeof(limits)
    if not _kernel32.SetInformationJobObject(handle, _EXTENDED_LIMITS, ctypes.byref(limits), size):
        error = _error()
        close(handle)
        raise error
    return int(handle)


def assign(job: int, pid: int) -> None:
    """Put a process into a job."""
    process = _opened(pid)
    try:
        if not _kernel32.AssignProcessToJobObject(job, process):
            raise _error()
    finally:
        close(process)


def resume(pid: int) -> None:
    """Let a suspended process go on."""
    process = _opened(pid)
    try:
        status = _ntdll.NtResumeProcess(process)
    finally:
        close(process)
    if status < 0:
        raise OSError(None, f"the system did not let the program begin (status {status & 0xFFFF_FFFF:#x})")


def terminate(job: int) -> None:
    """End every process of a job."""
    _kernel32.TerminateJobObject(job, _ENDED)


def close(handle: int) -> None:
    """Close a handle of a job or process."""
    _kernel32.CloseHandle(handle)


def _opened(pid: int) -> int:
    process = _kernel32.OpenProcess(_ACCESS, False, pid)
    if not process:
        raise _error()
    return int(process)


def _error() -> OSError:
    if sys.platform != "win32":
        raise NotImplementedError
    return ctypes.WinError(ctypes.get_last_error())
