"""Ranks of a process group tell each other what they compile, and say when one has compiled what the others have not.

    rank 1: f(x[:7])       dynascope: rank 1 compiled `f` (train.py:12) again, and rank 0 has not since: ...

Each decides by its own guards, and waits for nobody: a message to the group's store for each compilation, and one look at it some time
later, in a thread of its own, so that it is said while a collective is waited for without end.
"""

from __future__ import annotations

import os
import sys
import threading
from typing import Any

from dynascope import recording
from dynascope.dataclass import dataclass
from dynascope.native.forking import forgotten_in_children
from dynascope.reasons import RankAlone
from dynascope.report.span import Span

PATIENCE_VARIABLE = "DYNASCOPE_RANKS_PATIENCE"
_DEFAULT_PATIENCE = 10.0
_MOST_RANKS = 256
_looking: list[threading.Timer] = []
_said: set[Span] = set()
forgotten_in_children(_looking.clear)


@dataclass(frozen=True)
class _Group:
    store: Any
    rank: int
    count: int


def compiled(function: str, span: Span, number: int, why: str | None) -> None:
    """This rank has made its `number`th entry for the region; `why` it was compiled again."""
    group = _group()
    if group is None:
        return
    place = f"dynascope/{function}/{span.file}/{span.line}/{span.column}/{number}"
    try:
        group.store.set(f"{place}/{group.rank}", why or "")
    except Exception:  # the group is being taken down, or has no store of its own
        return
    if why is None or span in _said:
        return
    patience = float(os.environ.get(PATIENCE_VARIABLE, _DEFAULT_PATIENCE))
    timer = threading.Timer(patience, _look, (group, place, function, span, why))
    timer.daemon = True
    _looking.append(timer)
    timer.start()


def wait() -> None:
    """Until all has been looked at by now."""
    for timer in _looking[:]:
        timer.join()


def _group() -> _Group | None:
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    count = distributed.get_world_size()
    if not 1 < count <= _MOST_RANKS:
        return None
    from torch.distributed import distributed_c10d

    return _Group(distributed_c10d._get_default_store(), distributed.get_rank(), count)


def _look(group: _Group, place: str, function: str, span: Span, why: str) -> None:
    try:
        others = [rank for rank in range(group.count) if rank != group.rank]
        absent = [rank for rank in others if not group.store.check([f"{place}/{rank}"])]
    except Exception:  # the group is gone, and with it all that could be waited for
        return
    finally:
        _looking[:] = [timer for timer in _looking if timer is not threading.current_thread()]
    if not absent or span in _said:
        return
    _said.add(span)
    explanation = RankAlone(function, group.rank, tuple(absent), why).explain(span)
    print(f"dynascope: {os.path.basename(span.file)}:{span.line}: {explanation.message}", file=sys.stderr, flush=True)
    recorder = recording.current()
    if recorder is not None:
        recorder.problem(explanation)
