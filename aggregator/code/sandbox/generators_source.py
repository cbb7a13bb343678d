"""The part of the prelude for rewritten generators (`generators`, `machine`)."""

from typing import Final

GENERATORS: Final = """
class _x_End:
    pass

class _x_Returned:
    def __init__(self, value):
        self.value = value

_x_END = _x_End()

def _x_is_error(error, kinds):
    return isinstance(error, kinds)

def _x_close(one):
    if isinstance(one, _x_Generator):
        one.close()

# A generator that only the function it is given to knows, which therefore closes it at its end.
def _x_dropped(one):
    if isinstance(one, _x_Generator):
        one._dropped = True
    return one

def _x_drop(one):
    if type(one) is _x_Generator and one._dropped:
        one.close()

def _x_leave(iterator, thrown):
    if isinstance(thrown, GeneratorExit):
        _x_close(iterator)

# What generators returned, by the error that tells of their end, which takes no value here.
_x_stops = []

def _x_stop(returned):
    error = StopIteration()
    if returned is not None:
        _x_stops.append((error, returned))
    return error

def _x_stop_value(error):
    for one, returned in reversed(_x_stops):
        if one is error:
            return returned
    return None

class _x_Generator:
    # `taken` are the iterators of a function such as `zip`, which has nothing else to do at its end.
    def __init__(self, step, taken=None):
        self._step, self._begun, self._done, self.returned = step, False, False, None
        self._taken, self._dropped = taken, False

    def advance(self, sent=None, thrown=None):
        if self._done:
            if thrown is not None:
                raise thrown
            self.returned = None
            return _x_END
        if thrown is not None and not self._begun:
            self._done = True
            raise thrown
        # It is done if this raises: an error that is caught here, and raised again, would lose its lines.
        self._begun = self._done = True
        value = self._step(sent, thrown)
        if type(value) is _x_Returned:
            self.returned, value = value.value, _x_END
        self._done = value is _x_END
        if self._done:
            self._drop()
        return value

    def _drop(self):
        for one in self._taken or ():
            _x_drop(one)

    def __iter__(self):
        return self

    def __next__(self):
        value = self.advance()
        if value is _x_END:
            raise _x_stop(self.returned)
        return value

    def send(self, value):
        value = self.advance(value)
        if value is _x_END:
            raise _x_stop(self.returned)
        return value

    def throw(self, error, *more):
        value = self.advance(None, error)
        if value is _x_END:
            raise _x_stop(self.returned)
        return value

    def close(self):
        if self._taken is not None:
            self._done = True
            return self._drop()
        if self._begun and not self._done:
            try:
                value = self.advance(None, GeneratorExit("closed"))
            except GeneratorExit:
                value = _x_END
            if value is not _x_END:
                raise RuntimeError("generator ignored GeneratorExit")
        self._done = True

    def __repr__(self):
        return "<generator object>"

# What `except Exception` does not catch.
GeneratorExit = KeyboardInterrupt

# The interpreter has none of its own; of an exception the program raises the name alone.
_x_StopAsync = StopAsyncIteration = StopIteration

class _x_AsyncGenerator:
    def __init__(self, step):
        self._step, self._done = step, False

    def __aiter__(self):
        return self

    async def advance(self, sent=None, thrown=None):
        if self._done:
            if thrown is not None:
                raise thrown
            return _x_END
        self._done = True
        value = await self._step(sent, thrown)
        if type(value) is _x_Returned:
            value = _x_END
        self._done = value is _x_END
        return value

    async def __anext__(self):
        value = await self.advance()
        if value is _x_END:
            raise StopIteration("async")
        return value

    async def asend(self, value):
        return await self.advance(value)

    async def aclose(self):
        self._done = True

class _x_AsyncManager:
    def __init__(self, generator):
        self.generator = generator

    async def __aenter__(self):
        value = await self.generator.advance()
        if value is _x_END:
            raise RuntimeError("generator didn't yield")
        return value

    async def __aexit__(self, kind, error, trace):
        if error is None:
            if await self.generator.advance() is not _x_END:
                raise RuntimeError("generator didn't stop")
            return False
        try:
            value = await self.generator.advance(None, error)
        except BaseException as raised:
            if type(raised) is type(error) and str(raised) == str(error):
                return False
            raise
        if value is _x_END:
            return True
        raise RuntimeError("generator didn't stop after athrow()")

def _x_aiter(values):
    return values if type(values) is _x_AsyncGenerator else values.__aiter__()

async def _x_anext(values):
    if type(values) is _x_AsyncGenerator:
        return await values.advance()
    try:
        return await values.__anext__()
    except _x_StopAsync:
        return _x_END

async def _x_gathered(values):
    iterator, taken = _x_aiter(values), []
    while (value := await _x_anext(iterator)) is not _x_END:
        taken.append(value)
    return taken

class _x_Manager:
    def __init__(self, generator):
        self.generator = generator

    def __enter__(self):
        value = self.generator.advance()
        if value is _x_END:
            raise RuntimeError("generator didn't yield")
        return value

    def __exit__(self, kind, error, trace):
        if error is None:
            if self.generator.advance() is not _x_END:
                raise RuntimeError("generator didn't stop")
            return False
        try:
            value = self.generator.advance(None, error)
        except BaseException as raised:
            if type(raised) is type(error) and str(raised) == str(error):
                return False
            raise
        if value is _x_END:
            return True
        raise RuntimeError("generator didn't stop after throw()")

    def __call__(self, function):
        raise TypeError("write `with`: a context manager is no decorator here")

# Types of values that have no functions of the program behind them.
_x_whole = (list, tuple, dict, set, frozenset, str, bytes, range)

def _x_iter(values):
    if isinstance(values, _x_whole) or type(values) is _x_Generator:
        return values if type(values) is _x_Generator else iter(values)
    if hasattr(values, "__next__") or not hasattr(values, "__iter__"):
        return iter(values) if not hasattr(values, "__next__") else values
    made = values.__iter__()
    return made

def _x_next(values, sent=None):
    if type(values) is _x_Generator:
        return values.advance(sent)
    try:
        return values.__next__() if hasattr(values, "__next__") else next(values)
    except StopIteration:
        return _x_END

def _x_result_of(values):
    return values.returned if type(values) is _x_Generator else None

def _x_all(values):
    if isinstance(values, _x_whole) or not (type(values) is _x_Generator or hasattr(values, "__iter__")):
        return values
    taken, iterator = [], _x_iter(values)
    while (value := _x_next(iterator)) is not _x_END:
        taken.append(value)
    return taken

def _x_next_of(values, *default):
    value = _x_next(_x_iter(values) if type(values) is list else values)
    _x_drop(values)
    if value is not _x_END:
        return value
    if default:
        return default[0]
    raise _x_stop(_x_result_of(values))

def _x_iter_of(values, *more):
    if not more:
        return _x_iter(values)
    def step(sent, thrown):
        value = values()
        return _x_END if value == more[0] else value
    return _x_Generator(step)

def _x_each(values, made, wanted, spread):
    iterators = [None]
    def step(sent, thrown):
        if iterators[0] is None:
            iterators[0] = _x_iter(values)
        while (value := _x_next(iterators[0])) is not _x_END:
            if spread:
                value = _x_all(value)
                if wanted is None or wanted(*value):
                    return made(*value)
            elif wanted is None or wanted(value):
                return made(value)
        return _x_END
    return _x_Generator(step, [values])

def _x_flat(lists):
    iterators = [None, None]
    def step(sent, thrown):
        if iterators[0] is None:
            iterators[0] = _x_iter(lists)
        while True:
            if iterators[1] is not None:
                value = _x_next(iterators[1])
                if value is not _x_END:
                    return value
            values = _x_next(iterators[0])
            if values is _x_END:
                return _x_END
            iterators[1] = _x_iter(values)
    return _x_Generator(step, [lists, *(lists if isinstance(lists, tuple) else ())])

def _x_flat_each(values, made, wanted, spread):
    return _x_flat(_x_dropped(_x_each(values, made, wanted, spread)))

def _x_chain(*lists):
    return _x_flat(lists)

def _x_enumerate(values, start=0):
    numbers, iterator = [start - 1], _x_iter(values)
    def step(sent, thrown):
        value = _x_next(iterator)
        if value is _x_END:
            return _x_END
        numbers[0] += 1
        return (numbers[0], value)
    return _x_Generator(step, [iterator])

def _x_zip(*lists, strict=False):
    iterators = [_x_iter(values) for values in lists]
    def step(sent, thrown):
        if not iterators:
            return _x_END
        values = []
        for iterator in iterators:
            value = _x_next(iterator)
            if value is _x_END:
                if strict and (values or any([_x_next(other) is not _x_END for other in iterators[1:]])):
                    raise ValueError("zip() has arguments of different lengths")
                return _x_END
            values.append(value)
        return tuple(values)
    return _x_Generator(step, iterators)

def _x_map(function, *lists):
    return _x_each(_x_dropped(_x_zip(*lists)), function, None, True)

def _x_filter(function, values):
    return _x_each(values, lambda value: value, function or (lambda value: value), False)

def _x_any(values):
    iterator = _x_iter(values)
    while (value := _x_next(iterator)) is not _x_END:
        if value:
            _x_drop(values)
            return True
    return False

def _x_all_of(values):
    iterator = _x_iter(values)
    while (value := _x_next(iterator)) is not _x_END:
        if not value:
            _x_drop(values)
            return False
    return True

def _x_islice(values, *ends):
    start, stop = (0, ends[0]) if len(ends) == 1 else (ends[0] or 0, ends[1])
    step_by = ends[2] if len(ends) > 2 else 1
    place, iterator = [0], _x_iter(values)
    def step(sent, thrown):
        while stop is None or place[0] < stop:
            value = _x_next(iterator)
            if value is _x_END:
                return _x_END
            place[0] += 1
            at = place[0] - 1
            if at >= start and (at - start) % (step_by or 1) == 0:
                return value
        return _x_END
    return _x_Generator(step, [iterator])

def _x_takewhile(wanted, values):
    iterator = _x_iter(values)
    def step(sent, thrown):
        value = _x_next(iterator)
        return value if value is not _x_END and wanted(value) else _x_END
    return _x_Generator(step, [iterator])

def _x_dropwhile(wanted, values):
    iterator, dropping = _x_iter(values), [True]
    def step(sent, thrown):
        value = _x_next(iterator)
        while dropping[0] and value is not _x_END and wanted(value):
            value = _x_next(iterator)
        dropping[0] = False
        return value
    return _x_Generator(step, [iterator])
"""
