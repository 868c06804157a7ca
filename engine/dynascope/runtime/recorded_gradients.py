"""A graph that gradients lead through, recorded: its forward pass lends what its backward pass reads.

    forward = RecordedForward(call, ..., lent=saved)            forward(x, w)  ->  copies of results, saved values lent
    backward = RecordedBackward(call, ..., forward, marks)      backward(*saved, *tangents)  ->  gradients, lent

    a step                 saved values go when the backward pass has read them: the next step replays the same recording
    two forwards first     the first one's saved values are held: the second call has a recording of its own, up to a few
    .grad is accumulated   the first gradients are held as `.grad`: the next ones are another recording's, added and let go of

Each recording of the forward pass has backward recordings of its own, which read what it saved where that lies. Where a forward pass ran
as it is, or its saved values lie elsewhere by now, the backward pass runs as it is.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from types import NoneType
from typing import Any

import torch

from dynascope.runtime.cuda_graphs import Recorder, Recording, Replayed
from dynascope.runtime.graph_calls import Call, Marks

Told = Callable[[BaseException | None], None]

ALL = range(sys.maxsize)
"""Of results: gradients are lent, whichever they are."""


class RecordedForward(Replayed):
    """Runs as it is where the program puts hooks on what is saved: they may hand it to other streams, of which memory says nothing."""

    def __call__(self, *inputs: Any) -> tuple[Any, ...]:
        if self.gave_up or torch._C._autograd._top_saved_tensors_default_hooks(True) is not None:
            return self._call(*inputs)
        return super().__call__(*inputs)

    def lender(self, given: Sequence[Any], marks: Marks) -> Recording | None:
        """The recording that lent what a backward pass is given. `marks` are (result of the forward pass, its place there)."""
        for recording in self.recordings():
            lent = ((recording.results.lent_at(result), given[place]) for result, place in marks)
            addresses = next(((one.data_ptr(), other.data_ptr()) for one, other in lent if one is not None and one.numel()), None)
            if addresses is None or addresses[0] == addresses[1]:  # where nothing was lent, any will do
                return recording
        return None


class RecordedBackward:
    """Stands for `call`, and has its `with_list`: the inputs come in a list that is emptied."""

    def __init__(
        self,
        call: Call,
        written: frozenset[int],
        unused: frozenset[int],
        forward: RecordedForward,
        marks: Marks,
        recorder: Recorder,
        told: Told = lambda _: None,
    ) -> None:
        self._call, self._written, self._unused = call, written, unused
        self._forward, self._marks, self._recorder, self._told = forward, marks, recorder, told
        self.gave_up = False

    def __call__(self, *inputs: Any) -> tuple[Any, ...]:
        return self.with_list(list(inputs))

    def with_list(self, inputs: list[Any]) -> tuple[Any, ...]:
        # Of what a pass does not read nothing may be left; it is one after another, and seldom.
        recording = None if self.gave_up or NoneType in map(type, inputs) else self._forward.lender(inputs, self._marks)
        if recording is None:
            return self._as_it_is(inputs)
        replayed = recording.followers.get(self)
        if replayed is None:
            moving = self._moving(recording, inputs)
            replayed = Replayed(self._call, self._written, self._unused, self._recorder, self._give_up, ALL, moving)
            recording.followers[self] = replayed
        given = tuple(inputs)
        inputs.clear()
        return replayed(*given)

    def _moving(self, recording: Recording, inputs: Sequence[Any]) -> set[int]:
        """All but what the forward pass lent, and what it read where it was: tangents, batches, results."""
        stays = {*recording.addresses.values(), *recording.results.lent_addresses()}
        tensors = ((at, value) for at, value in enumerate(inputs) if isinstance(value, torch.Tensor) and at not in self._unused)
        return {at for at, value in tensors if at not in self._written and value.data_ptr() not in stays}

    def _as_it_is(self, inputs: list[Any]) -> tuple[Any, ...]:
        with_list = getattr(self._call, "with_list", None)
        return self._call(*inputs) if with_list is None else with_list(inputs)

    def _give_up(self, error: BaseException | None) -> None:
        """For one recording of the forward pass, and then for all."""
        if not self.gave_up:
            self.gave_up = True
            self._told(error)
