"""Joint trace and partition beside torch's AOTAutograd, on GPT-2 and T5 (of transformers, with random weights), in a warm process.

    python bench/joint.py [--times 3] [--layers 12]

Ours is `dynascope.aot` with a compiler that returns its graph, less `dynascope.compile(backend="eager")`; theirs is torch.compile's
`aot_eager` less its `eager`. Each is a first call after a reset, in turn with the others, in seconds of the processor. Saved bytes are
what the result's history keeps beyond parameters and inputs, ours beside torch.compile's default partition (`aot_eager_decomp_partition`).
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import dynascope
import torch
from results import write_section
from torch import nn


def models(layers: int) -> Iterator[tuple[str, nn.Module, dict[str, torch.Tensor]]]:
    from transformers import GPT2Config, GPT2LMHeadModel, T5Config, T5ForConditionalGeneration

    torch.manual_seed(0)
    identifiers = torch.randint(0, 1000, (1, 64))
    gpt2 = GPT2LMHeadModel(GPT2Config(n_layer=layers, use_cache=False, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0))
    yield "GPT-2", gpt2, {"input_ids": identifiers, "labels": identifiers}
    tokens = dict(decoder_start_token_id=0, pad_token_id=0)
    t5 = T5ForConditionalGeneration(T5Config(num_layers=layers // 2, use_cache=False, dropout_rate=0.0, **tokens))
    yield "T5", t5, {"input_ids": identifiers, "labels": identifiers}


def as_it_is(graph: Any, example_inputs: list) -> Callable:
    return graph  # whose text is written when it is called, as AOTAutograd's is


def first_call(compile: Callable[[nn.Module], Callable], model: nn.Module, inputs: dict) -> float:
    """Seconds of the processor: one thread, so that what else the machine does counts little."""
    dynascope.reset()
    torch.compiler.reset()
    compiled = compile(model)
    start = time.process_time()
    compiled(**inputs)
    return time.process_time() - start


def beyond_capture(ways: dict[str, Callable[[nn.Module], Callable]], model: nn.Module, inputs: dict, times: int) -> list[float]:
    """Seconds of a first call of ours, ours to the core level, and theirs, each less its capture: medians over rounds, of which the
    first, that warms up, does not count.
    """
    rounds = [{way: first_call(compile, model, inputs) for way, compile in ways.items()} for _ in range(times + 1)][1:]
    pairs = (("ours", "ours, captured"), ("ours, core", "ours, captured"), ("theirs", "theirs, captured"))
    return [statistics.median(each[way] - each[captured] for each in rounds) for way, captured in pairs]


def saved_bytes(compile: Callable[[nn.Module], Callable], model: nn.Module, inputs: dict) -> int:
    dynascope.reset()
    torch.compiler.reset()
    loss = compile(model)(**inputs)["loss"]
    known = {each.untyped_storage().data_ptr() for each in (*model.parameters(), *model.buffers(), *inputs.values())}
    found: dict[int, int] = {}
    pending, seen = [loss.grad_fn], set()
    while pending:
        node = pending.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        pending += [following for following, _ in node.next_functions]
        for tensor in getattr(node, "saved_tensors", ()) or ():
            if isinstance(tensor, torch.Tensor) and tensor.untyped_storage().data_ptr() not in known:
                found[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
    return sum(found.values())


def second_derivative(model: nn.Module, inputs: dict) -> str:
    """Of the loss by a parameter, twice, beside eager's; or the error."""

    def twice(call: Callable) -> torch.Tensor:
        parameter = next(p for p in model.parameters() if p.dim() == 1)
        (gradient,) = torch.autograd.grad(call(**inputs)["loss"], parameter, create_graph=True)
        return torch.autograd.grad(gradient.pow(2).sum(), parameter)[0]

    def tried(call: Callable) -> torch.Tensor | str:
        try:
            return twice(call)
        except RuntimeError as error:
            return str(error).splitlines()[0][:80]

    dynascope.reset()
    expected, found = tried(model), tried(dynascope.aot(model, forward_compiler=as_it_is))
    if isinstance(found, str) or isinstance(expected, str):
        return "as eager, an error" if isinstance(found, str) and isinstance(expected, str) else f"error: {found}"
    return "right" if torch.allclose(found, expected, rtol=1e-3, atol=1e-5) else "WRONG"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--times", type=int, default=3)
    options.add_argument("--layers", type=int, default=12)
    given = options.parse_args()
    torch.set_num_threads(1)
    rows = []
    for name, model, inputs in models(given.layers):
        ways: dict[str, Callable[[nn.Module], Callable]] = {
            "ours": lambda m: dynascope.aot(m, forward_compiler=as_it_is),
            "ours, core": lambda m: dynascope.aot(m, forward_compiler=as_it_is, level="core"),
            "ours, captured": lambda m: dynascope.compile(m, backend="eager"),
            "theirs": lambda m: torch.compile(m, backend="aot_eager"),
            "theirs, captured": lambda m: torch.compile(m, backend="eager"),
        }
        ours, core, theirs = beyond_capture(ways, model, inputs, given.times)
        kept = saved_bytes(ways["ours, core"], model, inputs)
        kept_there = saved_bytes(lambda m: torch.compile(m, backend="aot_eager_decomp_partition"), model, inputs)
        row = [name, f"{ours:.3f} s", f"{core:.3f} s", f"{theirs:.3f} s", f"{ours / theirs:.2f}", f"{core / theirs:.2f}"]
        rows.append([*row, f"{kept / 2**20:.2f} MB", f"{kept_there / 2**20:.2f} MB", second_derivative(model, inputs)])
    columns = ["model", "joint, ATen", "joint, core", "AOTAutograd", "ratio", "ratio, core", "saved", "theirs", "second derivative"]
    write_section("Joint graphs", "python bench/joint.py", columns, rows)


if __name__ == "__main__":
    main()
