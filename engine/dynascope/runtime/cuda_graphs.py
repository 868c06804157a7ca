"""`mode="reduce-overhead"`: what a graph launches on a GPU is recorded once and replayed as one launch.

    replayed = Replayed(call, written, CudaRecorder(device))
    replayed(x, w, cache)                 gives what call(x, w, cache) gives

A recording is addresses and numbers, so it serves calls that have the same ones:
- An input that moves (a batch) is copied to where the recording reads it. One that stays (a parameter) is read where it is. One that
  the graph writes is never copied: where it lies elsewhere, another recording is made.
- Numbers are part of a recording. Others are recorded too, as long as recordings are replayed: what replays have saved pays for new ones
  (a cache made anew for each text that is generated). Where nothing pays, the graph runs as it is from then on.
- What a replay makes lies in memory that the next one writes again. Results are copied out of it before anybody sees them, or lent: then
  that recording waits until nobody holds them (`recorded_results.py`). Nothing that a program holds is ever overwritten.
- While all recordings that would serve a call wait so, another is made, and beyond a few the graph runs as it is.
- Recordings of a device share one pool: one replays at a time, on the stream that the first of them was made on. What was lent is held
  while others replay, so a recording that lends has a pool of its own.
- Random numbers go on: torch counts what its generator gives to a recording, at each replay.

Nothing here keeps an input alive.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Collection, Container, Sequence
from dataclasses import field
from typing import Any, Protocol

import torch

from dynascope.dataclass import dataclass
from dynascope.native.forking import safe_in_children
from dynascope.runtime.graph_calls import Call
from dynascope.runtime.recorded_results import RecordedResults, Unrecordable

MOST_RECORDINGS = 8
"""That one graph keeps, and that it makes before any is replayed. A program whose addresses or numbers are others at each call gains
nothing."""

MOST_LENDING = 4
"""Of a graph whose recordings lend: each has memory of its own for that."""

REPLAYS_OF_A_RECORDING = 16
"""So many replays save what a recording costs."""

MOST_SEEN = 64
"""Numbers of calls that are remembered without a recording."""


_address_of = torch.Tensor.data_ptr


class Recorder(Protocol):
    """How a device records. `record(run, apart)` runs it for its launches alone, and gives (replay, what run gave); raises where something
    cannot be recorded. `apart`: what is made there lies in memory that no other recording writes. `place()` is where work is queued now;
    None where nothing may be recorded."""

    lock: Any

    def record(self, run: Callable[[], tuple[Any, ...]], apart: bool) -> tuple[Callable[[], None], tuple[Any, ...]]: ...

    def place(self) -> Any: ...


@dataclass(slots=True, eq=False)
class Recording:
    """`addresses` of the inputs that are read where they are, by position; `copied` the memory that others are copied to."""

    replay: Callable[[], None]
    addresses: dict[int, int]
    copied: dict[int, torch.Tensor]
    results: RecordedResults
    followers: dict[Any, Any] = field(default_factory=dict)
    """What others keep for each recording, and no longer than that."""

    def misplaced(self, inputs: Sequence[Any]) -> list[int]:
        addresses = map(_address_of, map(inputs.__getitem__, self.addresses))
        if list(addresses) == list(self.addresses.values()):
            return []
        return [at for at, address in self.addresses.items() if inputs[at].data_ptr() != address]

    def run(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        for at, memory in self.copied.items():
            memory.copy_(inputs[at])
        self.replay()
        return self.results.give(inputs)


class Replayed:
    """Stands for `call`. `written` are the positions of inputs that it writes to, `unused` of those that it does not look at, `moving` of
    those that are known to lie elsewhere at each call, `lent` of results that are not copied. `told(error)` hears when nothing is replayed
    any more, and why."""

    def __init__(
        self,
        call: Call,
        written: frozenset[int],
        unused: frozenset[int],
        recorder: Recorder,
        told: Callable[[BaseException | None], None] = lambda _: None,
        lent: Container[int] = (),
        moving: Collection[int] = (),
    ) -> None:
        self._call, self._written, self._unused, self._recorder, self._told = call, written, unused, recorder, told
        self._lent = lent
        self._most = MOST_LENDING if lent else MOST_RECORDINGS
        self._recordings: list[tuple[tuple[Any, ...], Recording]] = []
        """With the numbers of each, the one that served last in front."""
        self._seen: dict[tuple[Any, ...], None] = {}
        """The numbers of calls that were not recorded."""
        self._places: dict[int, int] = {}
        """Where inputs were at the last of these."""
        self._moving = set(moving)
        self._numbers_at: list[int] | None = None
        """The positions of what is no tensor; None before the first call."""
        self._made = self._seen_in_all = self._replays = 0
        self.gave_up = False

    def __call__(self, *inputs: Any) -> tuple[Any, ...]:
        if self.gave_up:
            return self._call(*inputs)
        with self._recorder.lock:
            if self._recorder.place() is None:
                return self._call(*inputs)
            return self._replayed(inputs)

    def recordings(self) -> list[Recording]:
        return [recording for _, recording in self._recordings]

    def _replayed(self, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        numbers = self._numbers(inputs)
        misplaced: list[int] | None = None
        held = 0
        for rank, (others, recording) in enumerate(self._recordings):
            if others != numbers:
                continue
            found = recording.misplaced(inputs)
            if not found and recording.results.are_free():
                if rank:
                    self._recordings.insert(0, self._recordings.pop(rank))
                self._replays += 1
                return recording.run(inputs)
            held += not found
            misplaced = found if misplaced is None or not found else misplaced
        if held and (held >= self._most or self._made >= self._allowed()):
            return self._call(*inputs)  # the program holds what all of them gave
        if misplaced is None and numbers not in self._seen:
            # What is done once only (loading, choosing algorithms, workspaces) is done before anything is recorded.
            return self._first_of(numbers, inputs)
        if misplaced is None:
            misplaced = [at for at, value in self._tensors(inputs) if value.data_ptr() != self._places.get(at)]
        self._moving.update(set(misplaced) - self._written)
        if self._made >= self._allowed():
            return self._give_up(inputs, None)
        try:
            recording = self._recorded(inputs)
        except Exception as error:
            return self._give_up(inputs, error)
        self._recordings.insert(0, (numbers, recording))
        del self._recordings[self._most :]
        return recording.run(inputs)

    def _numbers(self, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        """A graph has tensors and numbers at the same positions at each call."""
        if self._numbers_at is None:
            given = (at for at in range(len(inputs)) if at not in self._unused)
            self._numbers_at = [at for at in given if not isinstance(inputs[at], torch.Tensor)]
        return tuple([(type(inputs[at]), repr(inputs[at])) for at in self._numbers_at])

    def _tensors(self, inputs: Sequence[Any]) -> list[tuple[int, torch.Tensor]]:
        given = ((at, value) for at, value in enumerate(inputs) if at not in self._unused)
        return [(at, value) for at, value in given if isinstance(value, torch.Tensor)]

    def _first_of(self, numbers: tuple[Any, ...], inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        if self._seen_in_all >= self._allowed():
            return self._give_up(inputs, None)
        self._seen_in_all += 1
        self._seen[numbers] = None
        if len(self._seen) > MOST_SEEN:
            del self._seen[next(iter(self._seen))]
        self._places = {at: value.data_ptr() for at, value in self._tensors(inputs)}
        return self._call(*inputs)

    def _allowed(self) -> int:
        return MOST_RECORDINGS + self._replays // REPLAYS_OF_A_RECORDING

    def _recorded(self, inputs: tuple[Any, ...]) -> Recording:
        self._made += 1
        copied = {at: _memory_like(inputs[at]) for at in sorted(self._moving)}
        arguments = [None if at in self._unused else copied.get(at, value) for at, value in enumerate(inputs)]
        for at, memory in copied.items():
            memory.copy_(inputs[at])
        replay, made = self._recorder.record(lambda: self._call(*arguments), bool(self._lent))
        results = RecordedResults(made, arguments, self._lent)
        del made
        results.watch()
        addresses = {at: value.data_ptr() for at, value in self._tensors(inputs) if at not in copied}
        return Recording(replay, addresses, copied, results)

    def _give_up(self, inputs: tuple[Any, ...], error: BaseException | None) -> tuple[Any, ...]:
        self.gave_up = True
        self._recordings.clear()
        self._seen.clear()
        self._told(error)
        return self._call(*inputs)


def _memory_like(value: torch.Tensor) -> torch.Tensor:
    if torch._debug_has_internal_overlap(value):
        raise Unrecordable("an input whose elements overlap moves from call to call")
    return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=value.device)


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

    def record(self, run: Callable[[], tuple[Any, ...]], apart: bool) -> tuple[Callable[[], None], tuple[Any, ...]]:
        if self._shared.pool is None:
            self._shared.pool = torch.cuda.graph_pool_handle()
        pool = torch.cuda.graph_pool_handle() if apart else self._shared.pool
        graph = torch.cuda.CUDAGraph()
        generator = torch.cuda.default_generators[self._index]
        before = generator.clone_state()
        try:
            with torch.cuda.graph(graph, pool=pool, capture_error_mode="thread_local"):
                results = run()
        except BaseException:
            generator.graphsafe_set_state(before)  # it would go on taking all work for a part of the recording
            raise
        return graph.replay, results
