"""Results that eager's kernels leave undefined, which Python sees as None, where torch's meta functions have empty tensors.

    with_undefined("_native_multi_head_attention", arguments, keywords, (result, weights))     (result, None) without `need_weights`
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def with_undefined(name: str, arguments: Sequence[Any], keywords: Mapping[str, Any], results: Any) -> Any:
    """What the meta function of the operator of that name gave, as eager gives it."""
    find = UNDEFINED.get(name)
    if find is None or not isinstance(results, (tuple, list)):
        return results
    undefined = find(arguments, keywords)
    return tuple(None if at in undefined else result for at, result in enumerate(results))


def _of_multi_head_attention(arguments: Sequence[Any], keywords: Mapping[str, Any]) -> tuple[int, ...]:
    needs_weights = arguments[NEED_WEIGHTS] if len(arguments) > NEED_WEIGHTS else keywords.get("need_weights", True)
    return () if needs_weights and arguments[0].numel() else (1,)


NEED_WEIGHTS = 10
UNDEFINED = {"_native_multi_head_attention": _of_multi_head_attention}
