"""Models of transformers and timm on a GPU: a training step under bfloat16 autocast and inference in bfloat16, ours beside
torch.compile's and eager's. Random weights, four layers of the usual widths; nothing is downloaded.

    PYTHONPATH=engine python bench/gpu_library_models.py                    all of them, into RESULTS.md
    PYTHONPATH=engine python bench/gpu_library_models.py llama "timm swin"  those whose name holds a word, printed
    --seconds 400                                                           no group of models is begun after them

Each model has a process of its own; a group of them compiles at once, and is measured one at a time when all have compiled, or ended.
Milliseconds are of wall time, the least of two medians; peaks are of one step, above what is held before it.
"""

from __future__ import annotations

import argparse
import copy
import fcntl
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "engine"))

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from gpu_calls import in_turn, peak_megabytes  # noqa: E402
from results import write_section  # noqa: E402
from torch import nn  # noqa: E402

TITLE, COMMAND = "Models of libraries on a GPU", "PYTHONPATH=engine python bench/gpu_library_models.py"
SIDES = ("eager", "torch.compile", "ours")
AT_ONCE = 14
LONGEST = 260
"""Seconds for a model, compiling and waiting for others included."""
BATCH, LENGTH, WORDS = 8, 256, 8000
ENCODER = dict(hidden_size=768, num_hidden_layers=4, num_attention_heads=12, intermediate_size=3072, vocab_size=WORDS)
DECODER = dict(hidden_size=1024, num_hidden_layers=4, num_attention_heads=16, intermediate_size=2816, vocab_size=WORDS)
GROUPED = DECODER | dict(num_key_value_heads=4, max_position_embeddings=1024)
SPELLED = dict(n_embd=768, n_layer=4, n_head=12, vocab_size=WORDS)
LANGUAGE = {
    "BERT": ("BertForMaskedLM", "BertConfig", ENCODER),
    "ALBERT": ("AlbertForMaskedLM", "AlbertConfig", ENCODER | dict(embedding_size=128)),
    "ELECTRA": ("ElectraForMaskedLM", "ElectraConfig", ENCODER),
    "DeBERTa": (
        *("DebertaV2ForMaskedLM", "DebertaV2Config"),
        ENCODER | dict(relative_attention=True, pos_att_type=["p2c", "c2p"], position_buckets=64),
    ),
    "MPNet": ("MPNetForMaskedLM", "MPNetConfig", ENCODER),
    "GPT-2": ("GPT2LMHeadModel", "GPT2Config", SPELLED),
    "GPT-NeoX": ("GPTNeoXForCausalLM", "GPTNeoXConfig", ENCODER),
    "LLaMA": ("LlamaForCausalLM", "LlamaConfig", GROUPED),
    "Mistral": ("MistralForCausalLM", "MistralConfig", GROUPED),
    "Qwen3": ("Qwen3ForCausalLM", "Qwen3Config", GROUPED | dict(head_dim=64)),
    "Gemma 2": ("Gemma2ForCausalLM", "Gemma2Config", GROUPED | dict(head_dim=64)),
    "Phi": ("PhiForCausalLM", "PhiConfig", DECODER),
    "BLOOM": ("BloomForCausalLM", "BloomConfig", dict(hidden_size=768, n_layer=4, n_head=12, vocab_size=WORDS)),
    "Falcon": (
        *("FalconForCausalLM", "FalconConfig"),
        dict(hidden_size=768, num_hidden_layers=4, num_attention_heads=12, vocab_size=WORDS),
    ),
    "Mixtral": ("MixtralForCausalLM", "MixtralConfig", GROUPED | dict(num_local_experts=4, num_experts_per_tok=2)),
    "XLNet": ("XLNetLMHeadModel", "XLNetConfig", dict(d_model=768, n_layer=4, n_head=12, d_inner=3072, vocab_size=WORDS)),
}
PICTURES = {
    "ViT": ("ViTForImageClassification", "ViTConfig", dict(num_hidden_layers=4)),
    "Swin": ("SwinForImageClassification", "SwinConfig", dict(depths=[2, 2, 2, 2])),
    "ConvNeXt": ("ConvNextForImageClassification", "ConvNextConfig", dict(depths=[2, 2, 2, 2])),
    "DINOv2": ("Dinov2ForImageClassification", "Dinov2Config", dict(num_hidden_layers=4, image_size=224)),
    "ResNet": ("ResNetForImageClassification", "ResNetConfig", dict(depths=[2, 2, 2, 2])),
}
OF_TIMM = ("resnet50", "efficientnet_b0", "convnext_tiny", "vit_small_patch16_224", "swin_tiny_patch4_window7_224", "mixer_s32_224")


class Classifier(nn.Module):
    """A model of timm, with its loss."""

    def __init__(self, name: str) -> None:
        super().__init__()
        import timm

        self.model = timm.create_model(name)

    def forward(self, pixel_values: torch.Tensor, labels: torch.Tensor | None = None) -> dict[str, torch.Tensor]:
        logits = self.model(pixel_values)
        return dict(logits=logits) if labels is None else dict(loss=F.cross_entropy(logits, labels), logits=logits)


def _of_transformers(model: str, config: str, options: dict[str, Any]) -> nn.Module:
    import transformers

    return getattr(transformers, model)(getattr(transformers, config)(**options))


def made(name: str) -> tuple[nn.Module, dict[str, torch.Tensor]]:
    """A model of that name, and what a training step gives it."""
    if name in LANGUAGE:
        tokens = torch.randint(5, WORDS - 5, (BATCH, LENGTH), device="cuda")
        return _of_transformers(*LANGUAGE[name]), dict(input_ids=tokens, labels=tokens)
    model = _of_transformers(*PICTURES[name]) if name in PICTURES else Classifier(name.removeprefix("timm "))
    count, classes = (16, 2) if name in PICTURES else (32, 1000)
    return model, dict(
        pixel_values=torch.randn(count, 3, 224, 224, device="cuda"), labels=torch.randint(0, classes, (count,), device="cuda")
    )


NAMES = (*LANGUAGE, *PICTURES, *(f"timm {name}" for name in OF_TIMM))


def without_dropout(model: nn.Module) -> nn.Module:
    """Losses and gradients are compared: torch.compile draws numbers of its own."""
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        for name in ("attention_dropout", "dropout", "activation_dropout"):
            if isinstance(getattr(module, name, None), float):
                setattr(module, name, 0.0)
    return model


def compiled(model: nn.Module, side: str) -> Callable[..., Any]:
    import dynascope

    return {"eager": lambda model: model, "torch.compile": torch.compile, "ours": dynascope.compile}[side](model)


def measure(name: str, ready: Path, go: Path, turn: Path) -> dict[str, Any]:
    torch.set_float32_matmul_precision("high")
    torch.manual_seed(0)
    model, given = made(name)
    model = without_dropout(model).cuda()
    found: dict[str, Any] = {"name": name}
    steps: dict[str, Callable[[], Any]] = {}
    gradients: dict[str, dict[str, torch.Tensor]] = {}
    for side in SIDES:
        own = copy.deepcopy(model).train()
        call = compiled(own, side)

        def step(own: nn.Module = own, call: Callable[..., Any] = call) -> None:
            own.zero_grad(set_to_none=True)
            with torch.autocast("cuda", torch.bfloat16):
                loss = call(**given)["loss"]
            loss.backward()

        started = time.perf_counter()
        step()
        step()
        torch.cuda.synchronize()
        found[f"first, {side}"] = time.perf_counter() - started
        gradients[side] = {key: each.grad.float() for key, each in own.named_parameters() if each.grad is not None}
        steps[side] = step
    norm = sum(float(each.square().sum()) for each in gradients["eager"].values()) ** 0.5
    for side in SIDES[1:]:
        assert gradients[side].keys() == gradients["eager"].keys(), "gradients of other parameters"
        apart = (float((gradients[side][key] - each).square().sum()) for key, each in gradients["eager"].items())
        found[f"gradients, {side}"] = sum(apart) ** 0.5 / norm
    half = copy.deepcopy(model).eval().to(torch.bfloat16)
    fed = {key: each.to(torch.bfloat16) if each.is_floating_point() else each for key, each in given.items() if key != "labels"}
    inference: dict[str, Callable[[], Any]] = {}
    for side in SIDES:
        call = compiled(half, side)

        def infer(call: Callable[..., Any] = call) -> Any:
            with torch.no_grad():
                return call(**fed)["logits"]

        infer()
        infer()
        inference[side] = infer
    ready.touch()
    while not go.exists():
        time.sleep(0.1)
    with turn.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for what, calls in (("step", steps), ("inference", inference)):
            rounds = [in_turn(calls, 5, 3) for _ in range(2)]
            found |= {f"{what}, {side}": min(each[side] for each in rounds) for side in SIDES}
        found |= {f"peak, {side}": peak_megabytes(step) for side, step in steps.items()}
    return found


def measured_in_groups(names: list[str], seconds: float) -> Iterator[list[dict[str, Any] | str]]:
    """What was found of each so far, or why nothing was, in the order of the names, whenever a group has been measured."""
    started, found = time.monotonic(), []
    for first in range(0, len(names), AT_ONCE):
        if time.monotonic() - started < seconds:
            found += _measure_group(names[first : first + AT_ONCE])
            yield found


def _measure_group(names: list[str]) -> list[dict[str, Any] | str]:
    with tempfile.TemporaryDirectory() as folder:
        go, ends = Path(folder, "go"), time.monotonic() + LONGEST
        environment = {"OMP_NUM_THREADS": "1", **os.environ, "DYNASCOPE_CACHE_DIR": f"{folder}/ours"}
        running = []
        for number, name in enumerate(names):
            words = [sys.executable, __file__, "--one", name, folder, str(number)]
            own = environment | {"TORCHINDUCTOR_CACHE_DIR": f"{folder}/theirs-{number}"}
            running.append(subprocess.Popen(words, env=own, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        while time.monotonic() < ends - 80 and any(
            each.poll() is None and not Path(folder, f"ready-{number}").exists() for number, each in enumerate(running)
        ):
            time.sleep(0.5)
        go.touch()
        return [_ended(name, each, ends) for name, each in zip(names, running, strict=True)]


def _ended(name: str, process: subprocess.Popen[str], ends: float) -> dict[str, Any] | str:
    try:
        output, errors = process.communicate(timeout=max(ends - time.monotonic(), 1))
    except subprocess.TimeoutExpired:
        process.kill()
        return f"{name}: not done after {LONGEST} s"
    return json.loads(output.splitlines()[-1]) if process.returncode == 0 else f"{name}: {errors.strip().splitlines()[-1][:150]}"


SIDES_OF_A_TABLE = ("torch.compile", "ours")
COLUMNS = (
    *("model", "step, ms: eager", *SIDES_OF_A_TABLE, "ours / torch.compile"),
    *("peak of a step, MB: eager", *SIDES_OF_A_TABLE),
    *("inference, ms: eager", *SIDES_OF_A_TABLE, "ours / torch.compile"),
)


def row_of(found: dict[str, Any]) -> list[str]:
    step, peak, inference = ([found[f"{what}, {side}"] for side in SIDES] for what in ("step", "peak", "inference"))
    return [
        found["name"],
        *(f"{each:.2f}" for each in step),
        f"{step[2] / step[1]:.2f}",
        *(f"{each:.0f}" for each in peak),
        *(f"{each:.2f}" for each in inference),
        f"{inference[2] / inference[1]:.2f}",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*")
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--one", nargs=3, metavar=("NAME", "FOLDER", "NUMBER"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    if options.one:
        name, folder, number = options.one
        found = measure(name, Path(folder, f"ready-{number}"), Path(folder, "go"), Path(folder, "turn"))
        print(json.dumps(found))
        return
    names = [name for name in NAMES if not options.words or any(word.lower() in name.lower() for word in options.words)]
    for found in measured_in_groups(names, options.seconds):
        if options.words:
            print(*(each if isinstance(each, str) else " | ".join(row_of(each)) for each in found[-AT_ONCE:]), sep="\n", flush=True)
        else:
            write(found, names)


def write(found: list[dict[str, Any] | str], names: list[str]) -> None:
    measured = [each for each in found if not isinstance(each, str)]
    left = [*(each for each in found if isinstance(each, str)), *(f"{name}: not begun" for name in names[len(found) :])]
    ratios = {
        what: statistics.geometric_mean(each[f"{what}, ours"] / each[f"{what}, torch.compile"] for each in measured)
        for what in ("step", "peak", "inference", "first")
    }
    geomean = [
        *("geomean", "", "", "", f"{ratios['step']:.2f}", "", "", f"{ratios['peak']:.2f} of theirs"),
        *("", "", "", f"{ratios['inference']:.2f}"),
    ]
    apart = max(each["gradients, ours"] / max(each["gradients, torch.compile"], 1e-9) for each in measured)
    note = (
        f"Gradients are as far from eager's as torch.compile's, times {apart:.1f} at the most. The first two steps take "
        f"{ratios['first']:.2f} of torch.compile's time ({AT_ONCE} processes compile at once)."
    )
    if left:
        note += " Without figures: " + "; ".join(left) + "."
    write_section(TITLE, COMMAND, list(COLUMNS), [*map(row_of, measured), geomean], note)


if __name__ == "__main__":
    main()
