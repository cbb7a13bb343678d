"""The part of the prelude for `asyncio`: tasks, groups, queues, locks and waiting."""

from typing import Final

# Calls run at the same time within `gather`; what `create_task` is given runs when it is awaited.
ASYNCIO: Final = """
import asyncio as _asyncio

async def _settled(one):
    if type(one) is _Task:
        return await one._outcome()
    return await one if type(one).__name__ == "coroutine" else one

async def _caught(one):
    try:
        return await _settled(one)
    except (Exception, KeyboardInterrupt) as error:
        return error

class _Semaphore:
    def __init__(self, value=1):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *failure):
        pass

    async def __aenter__(self):
        return self

    async def __aexit__(self, *failure):
        return None

class _Lock:
    def __init__(self):
        self._held = False

    def locked(self):
        return self._held

    async def acquire(self):
        pause = 0.001
        while self._held:
            await _asyncio.sleep(pause)
            pause = min(2 * pause, 0.25)
        self._held = True
        return True

    def release(self):
        if not self._held:
            raise RuntimeError("Lock is not acquired.")
        self._held = False

    async def __aenter__(self):
        await self.acquire()

    async def __aexit__(self, *failure):
        self.release()

# The tasks that a program made, for what waits for their work.
_tasks_made = []

class _Task:
    def __init__(self, one):
        _tasks_made.append(self)
        self._one, self._begun, self._done, self._value, self._error = one, False, False, None, None
        # `_left`: it waited for a queue when all was done.
        self._told, self._cancelled, self._left = [], False, False

    async def _run(self):
        pause = 0.001
        while self._begun and not self._done:
            await _asyncio.sleep(pause)
            pause = min(2 * pause, 0.25)
        if self._done:
            return
        self._begun = True
        try:
            self._value = await _settled(self._one)
        except _Left:
            self._left = True
        except Exception as error:
            self._error = error
        self._done = True
        for function in self._told:
            function(self)

    async def _outcome(self):
        await self._run()
        return self.result()

    def add_done_callback(self, function):
        self._told.append(function)

    def cancel(self, *reason):
        if (self._begun or self._done) and not self._left:
            return False
        self._left = False
        self._begun = self._done = self._cancelled = True
        self._error = KeyboardInterrupt("cancelled")
        return True

    def cancelled(self):
        return self._cancelled

    def done(self):
        return self._done

    def result(self):
        if not self._done:
            raise RuntimeError("Result is not set.")
        if self._error is not None:
            raise self._error
        return self._value

    def exception(self):
        return self._error

# The tasks run when the block ends.
class _TaskGroup:
    def __init__(self):
        self._tasks = []

    def create_task(self, one, **more):
        task = _Task(one)
        self._tasks.append(task)
        return task

    async def __aenter__(self):
        return self

    async def __aexit__(self, kind, error, trace):
        if error is not None:
            return False
        await _asyncio.gather(*[task._run() for task in self._tasks])
        for task in self._tasks:
            if task.exception() is not None:
                raise task.exception()
        return False

# What waits looks again and again, as nothing wakes it.
class _Event:
    def __init__(self):
        self._set = False

    def is_set(self):
        return self._set

    def set(self):
        self._set = True

    def clear(self):
        self._set = False

    async def wait(self):
        pause = 0.001
        while not self._set:
            await _asyncio.sleep(pause)
            pause = min(2 * pause, 0.25)
        return True

# Nothing else raises these, as there are no files.
_QueueEmpty, _QueueFull = IsADirectoryError, NotADirectoryError

# What ends a task that waits for a queue, and whether all is done that the program waits for.
_Left, _joined = KeyboardInterrupt, [False]

class _Queue:
    def __init__(self, maxsize=0):
        self.maxsize, self._kept, self._open, self._told = maxsize, [], 0, False

    async def _wait(self, waits):
        pause = 0.001
        while waits():
            await _asyncio.sleep(pause)
            pause = min(2 * pause, 0.25)

    async def put(self, one):
        await self._wait(self.full)
        self.put_nowait(one)

    async def get(self):
        await self._wait(lambda: self.empty() and not self._is_over())
        if self.empty():
            # The program cancels the task that waits here, or leaves it.
            raise _Left("cancelled")
        return self._kept.pop(0)

    def _is_over(self):
        return _joined[0] and (self._open == 0 or not self._told)

    # The tasks of the program run until it has no more for them to do.
    async def join(self):
        async def watch():
            await self._wait(lambda: self._open > 0)
            _joined[0] = True
        tasks = [task for task in _tasks_made if not task._begun]
        await _asyncio.gather(watch(), *[task._run() for task in tasks])
        _joined[0] = False

    def put_nowait(self, one):
        if self.full():
            raise _QueueFull("the queue is full")
        self._open += 1
        self._kept.append(one)

    def get_nowait(self):
        if not self._kept:
            raise _QueueEmpty("the queue is empty")
        return self._kept.pop(0)

    def task_done(self):
        if self._open < 1:
            raise ValueError("task_done() called too many times")
        self._told = True
        self._open -= 1

    def empty(self):
        return not self._kept

    def full(self):
        return 0 < self.maxsize <= len(self._kept)

    def qsize(self):
        return len(self._kept)

class _Asyncio:
    Queue = _Queue
    QueueEmpty = _QueueEmpty
    QueueFull = _QueueFull
    Lock = _Lock
    TaskGroup = _TaskGroup
    TimeoutError = TimeoutError
    # Nothing raises it, and `except Exception` would not catch it.
    CancelledError = KeyboardInterrupt
    Event = _Event
    Semaphore = _Semaphore
    BoundedSemaphore = _Semaphore

    def run(self, main, **more):
        return _asyncio.run(_settled(main))

    async def gather(self, *ones, return_exceptions=False):
        settled = _caught if return_exceptions else _settled
        return await _asyncio.gather(*[settled(one) for one in ones])

    async def sleep(self, delay, result=None):
        await _asyncio.sleep(delay)
        return result

    def create_task(self, one, **more):
        return one

    def ensure_future(self, one, **more):
        return one

    def as_completed(self, ones, **more):
        return list(ones)

    def timeout(self, delay):
        return _Semaphore()

    async def wait(self, ones, **more):
        tasks = [one if isinstance(one, _Task) else _Task(one) for one in ones]
        await _asyncio.gather(*[task._run() for task in tasks])
        return set(tasks), set()

    async def wait_for(self, one, timeout=None):
        return await _settled(one)

    async def to_thread(self, function, *given, **more):
        return await _settled(function(*given, **more))

_added_asyncio = _Asyncio()
_added_asyncio.exceptions = _added_asyncio
"""
