"""`mode="reduce-overhead"`: what a graph launches on a GPU is recorded once and replayed as one launch.

    replayed = Replayed(call, written, CudaRecorder(device))
    replayed(x, w, cache)                 gives what call(x, w, cache) gives

A recording is addresses and numbers, so it serves calls that have the same ones:
- An input that moves (a batch) is copied to where the recording reads it. One that stays (a parameter) is read where it is. One that
  the graph writes is never copied: where it lies elsewhere, another recording is made.
- Numbers are part of a recording. Others are recorded too, as long as recordings are replayed: what replays have saved pays for new ones
  (a cache made anew for each text that is generated). Where nothing pays, the graph runs as it is from then on.
- What a replay makes lies in memory that the next one writes again. Results are copied out of it before anybody sees them, so
  nothing that a program holds is ever overwritten.
- All recordings of a device share one pool: one replays at a time, on the stream that the first of them was made on.
- Random numbers go on: torch counts what its generator gives to a recording, at each replay.

Nothing here keeps an input alive.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch

from dynascope.dataclass import dataclass
from dynascope.native.forking import safe_in_children

MOST_RECORDINGS = 8
"""That one graph keeps, and that it makes before any is replayed. A program whose addresses or numbers are others at each call gains
nothing."""

REPLAYS_OF_A_RECORDING = 16
"""So many replays save what a recording costs."""

MOST_SEEN = 64
"""Numbers of calls that are remembered without a recording."""

Call = Callable[..., tuple[Any, ...]]


class Recorder(Protocol):
    """How a device records. `record(run)` runs it for its launches alone, and gives (replay, what run gave); raises where something
    cannot be recorded. `place()` is where work is queued now; None where nothing may be recorded."""

    lock: Any

    def record(self, run: Callable[[], tuple[Any, ...]]) -> tuple[Callable[[], None], tuple[Any, ...]]: ...

    def place(self) -> Any: ...


@dataclass(slots=True, eq=False)
class _Recording:
    """`addresses` of the inputs that are read where they are, by position; `copied` the memory that others are copied to."""

    replay: Callable[[], None]
    addresses: dict[int, int]
    copied: dict[int, torch.Tensor]
    results: tuple[Any, ...]
    inputs_given_back: dict[int, int]
    """Results that are inputs themselves."""

    def misplaced(self, inputs: Sequence[Any]) -> list[int]:
        return [at for at, address in self.addresses.items() if inputs[at].data_ptr() != address]

    def run(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        for at, memory in self.copied.items():
            memory.copy_(inputs[at])
        self.replay()
        given_back = self.inputs_given_back
        return tuple(
            inputs[given_back[n]] if n in given_back else _copy(result) for n, result in enumerate(self.results)
        )


class Unrecordable(Exception):
    """What a graph gives cannot be told apart from the recording's own memory."""


class Replayed:
    """Stands for `call`. `written` are the positions of inputs that it writes to, `unused` of those that it does not look at.
    `told(error)` hears when nothing is replayed any more, and why."""

    def __init__(
        self,
        call: Call,
        written: frozenset[int],
        unused: frozenset[int],
        recorder: Recorder,
        told: Callable[[BaseException | None], None] = lambda _: None,
    ) -> None:
        self._call, self._written, self._unused, self._recorder, self._told = call, written, unused, recorder, told
        self._recordings: list[tuple[tuple[Any, ...], _Recording]] = []
        """With the numbers of each, the one that served last in front."""
        self._seen: dict[tuple[Any, ...], None] = {}
        """The numbers of calls that were not recorded."""
        self._places: dict[int, int] = {}
        """Where inputs were at the last of these."""
        self._moving: set[int] = set()
        self._made = self._seen_in_all = self._replays = 0
        self.gave_up = False

    def __call__(self, *inputs: Any) -> tuple[Any, ...]:
        if self.gave_up:
            return self._call(*inputs)
        with self._recorder.lock:
            if self._recorder.place() is None:
                return self._call(*inputs)
            return self._replayed(tuple(None if at in self._unused else value for at, value in enumerate(inputs)))

    def _replayed(self, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        numbers = tuple(None if isinstance(value, torch.Tensor) else (type(value), repr(value)) for value in inputs)
        misplaced: list[int] | None = None
        for rank, (others, recording) in enumerate(self._recordings):
            if others != numbers:
                continue
            found = recording.misplaced(inputs)
            if not found:
                if rank:
                    self._recordings.insert(0, self._recordings.pop(rank))
                self._replays += 1
                return recording.run(inputs)
            misplaced = found if misplaced is None else misplaced
        if misplaced is None and numbers not in self._seen:
            # What is done once only (loading, choosing algorithms, workspaces) is done before anything is recorded.
            return self._first_of(numbers, inputs)
        if misplaced is None:
            misplaced = [at for at, value in _tensors(inputs) if value.data_ptr() != self._places.get(at)]
        self._moving.update(set(misplaced) - self._written)
        if self._made >= self._allowed():
            return self._give_up(inputs, None)
        try:
            recording = self._recorded(inputs)
        except Exception as error:
            return self._give_up(inputs, error)
        self._recordings.insert(0, (numbers, recording))
        del self._recordings[MOST_RECORDINGS:]
        return recording.run(inputs)

    def _first_of(self, numbers: tuple[Any, ...], inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        if self._seen_in_all >= self._allowed():
            return self._give_up(inputs, None)
        self._seen_in_all += 1
        self._seen[numbers] = None
        if len(self._seen) > MOST_SEEN:
            del self._seen[next(iter(self._seen))]
        self._places = {at: value.data_ptr() for at, value in _tensors(inputs)}
        return self._call(*inputs)

    def _allowed(self) -> int:
        return MOST_RECORDINGS + self._replays // REPLAYS_OF_A_RECORDING

    def _recorded(self, inputs: tuple[Any, ...]) -> _Recording:
        self._made += 1
        copied = {at: _memory_like(inputs[at]) for at in sorted(self._moving)}
        arguments = [copied.get(at, value) for at, value in enumerate(inputs)]
        for at, memory in copied.items():
            memory.copy_(inputs[at])
        replay, results = self._recorder.record(lambda: self._call(*arguments))
        places = {id(argument): at for at, argument in enumerate(arguments) if isinstance(argument, torch.Tensor)}
        given_back = {n: places[id(result)] for n, result in enumerate(results) if id(result) in places}
        own = [result for n, result in enumerate(results) if isinstance(result, torch.Tensor) and n not in given_back]
        storages = [tensor.untyped_storage()._cdata for tensor in own]
        foreign = {value.untyped_storage()._cdata for _, value in _tensors(arguments)}
        if len(set(storages)) != len(storages) or not foreign.isdisjoint(storages):
            raise Unrecordable("results share memory with one another or with inputs")
        addresses = {at: value.data_ptr() for at, value in _tensors(inputs) if at not in copied}
        kept = tuple(None if n in given_back else result for n, result in enumerate(results))
        return _Recording(replay, addresses, copied, kept, given_back)

    def _give_up(self, inputs: tuple[Any, ...], error: BaseException | None) -> tuple[Any, ...]:
        self.gave_up = True
        self._recordings.clear()
        self._seen.clear()
        self._told(error)
        return self._call(*inputs)


def _tensors(values: Sequence[Any]) -> list[tuple[int, torch.Tensor]]:
    return [(at, value) for at, value in enumerate(values) if isinstance(value, torch.Tensor)]


def _memory_like(value: torch.Tensor) -> torch.Tensor:
    if torch._debug_has_internal_overlap(value):
        raise Unrecordable("an input whose elements overlap moves from call to call")
    return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=value.device)


def _copy(result: Any) -> Any:
    if not isinstance(result, torch.Tensor):
        return result
    made = torch.empty_strided(result.shape, result.stride(), dtype=result.dtype, device=result.device)
    made.data.copy_(result)  # a new result counts as never written
    return made


@dataclass(slots=True, eq=False)
class _Device:
    """What the recordings of one device share."""

    lock: Any
    pool: Any = None
    stream: int | None = None


@functools.cache
def _device(index: int) -> _Device:
    return _Device(safe_in_children(threading.RLock()))


class CudaRecorder:
    def __init__(self, device: torch.device) -> None:
        self._index = device.index or 0
        self._shared = _device(self._index)
        self.lock = self._shared.lock

    def place(self) -> int | None:
        if torch.cuda.is_current_stream_capturing() or torch.cuda.current_device() != self._index:
            return None
        stream = torch._C._cuda_getCurrentRawStream(self._index)
        if self._shared.stream is None:
            self._shared.stream = stream
        return stream if stream == self._shared.stream else None

    def record(self, run: Callable[[], tuple[Any, ...]]) -> tuple[Callable[[], None], tuple[Any, ...]]:
        if self._shared.pool is None:
            self._shared.pool = torch.cuda.graph_pool_handle()
        graph = torch.cuda.CUDAGraph()
        generator = torch.cuda.default_generators[self._index]
        before = generator.clone_state()
        try:
            with torch.cuda.graph(graph, pool=self._shared.pool, capture_error_mode="thread_local"):
                results = run()
        except BaseException:
            generator.graphsafe_set_state(before)  # it would go on taking all work for a part of the recording
            raise
        return graph.replay, results
