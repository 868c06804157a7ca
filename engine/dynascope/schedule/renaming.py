"""Steps and outputs that read other buffers than before.

    reading(step, {"mul": "x"})     the step, reading x where it read mul
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from dynascope.loops.nodes import ExternCall, Load, TensorView
from dynascope.schedule import memory
from dynascope.schedule.groups import ScatterGroup, Step


def reading(step: Step, names: Mapping[str, str]) -> Step:
    """`names` has the new name of each buffer that is renamed."""
    if not any(name in names for name in memory.reads(step)):
        return step
    if isinstance(step, ExternCall):
        arguments, keywords = (renamed(value, names) for value in (step.arguments, step.keywords))
        return replace(step, arguments=arguments, keywords=keywords)
    if isinstance(step, ScatterGroup):
        base = names.get(step.node.base, step.node.base)
        return ScatterGroup(reading(step.group, names), replace(step.node, base=base))  # type: ignore[arg-type]
    body = tuple(renamed(op, names) if isinstance(op, Load) else op for op in step.body)
    reads = tuple(dict.fromkeys(names.get(name, name) for name in step.reads))
    plain = None
    if step.plain is not None:
        plain = tuple(renamed(op, names) if isinstance(op, Load) else op for op in step.plain[0]), step.plain[1]
    product = step.product
    if product is not None:
        first, second, added = (renamed(view, names) for view in (product.first, product.second, product.added))
        product = replace(product, first=first, second=second, added=added)
    return replace(step, body=body, reads=reads, plain=plain, product=product)


def renamed(value: Any, names: Mapping[str, str]) -> Any:
    if isinstance(value, (TensorView, Load)):
        return replace(value, buffer=names[value.buffer]) if value.buffer in names else value
    if isinstance(value, (list, tuple)):
        return type(value)(renamed(item, names) for item in value)
    if isinstance(value, dict):
        return {key: renamed(item, names) for key, item in value.items()}
    return value
