"""Models of libraries as people have them today (transformers, timm, diffusers, accelerate), small and with random weights,
compiled with our kernels against eager: that outputs and gradients are the same, and in how many graphs.

    python bench/library_models.py [LIBRARY ...] [--write]

A library that is not installed here is said and passed over. Nothing is downloaded.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import importlib
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import dynascope
import torch
from dynascope import recording
from results import write_section

IDENTIFIERS = torch.arange(24).reshape(2, 12) * 7 % 90
TOKENS = dict(input_ids=IDENTIFIERS, attention_mask=torch.ones_like(IDENTIFIERS))
TEXT = dict(vocab_size=96, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4)
PICTURE = torch.linspace(-1, 1, 2 * 3 * 64 * 64).reshape(2, 3, 64, 64)


@dataclasses.dataclass(frozen=True)
class Row:
    """`graphs` of the calls without gradients and of the one with them together."""

    COLUMNS: ClassVar = ["model", "graphs", "breaks", "kernels", "outputs", "gradients"]

    name: str
    graphs: int
    breaks: int
    kernels: int
    outputs: bool
    gradients: bool
    library: str = ""

    def words(self) -> list[str]:
        answers = ("equal" if answer else "DIFFER" for answer in (self.outputs, self.gradients))
        return [self.name, str(self.graphs), str(self.breaks), str(self.kernels), *answers]


def transformers(library: Any) -> Iterator[tuple[str, Callable, dict]]:
    def model(name: str, configuration: str, **settings: Any) -> tuple[str, Callable]:
        made = getattr(library, configuration)(**settings)
        return name, functools.partial(getattr(library, name), made)

    grouped = dict(TEXT, num_key_value_heads=2)
    yield *model("BertModel", "BertConfig", **TEXT), TOKENS
    yield *model("GPT2LMHeadModel", "GPT2Config", vocab_size=96, n_embd=32, n_layer=2, n_head=4), dict(TOKENS, use_cache=False)
    yield *model("LlamaForCausalLM", "LlamaConfig", **grouped), dict(TOKENS, use_cache=False)
    yield *model("Qwen2Model", "Qwen2Config", **grouped), dict(TOKENS, use_cache=True)
    t5 = dict(vocab_size=96, d_model=32, d_ff=64, d_kv=8, num_layers=2, num_heads=4)
    yield *model("T5Model", "T5Config", **t5), dict(TOKENS, decoder_input_ids=IDENTIFIERS, use_cache=False)
    vision = dict(TEXT, image_size=64, patch_size=16)
    del vision["vocab_size"]
    yield *model("ViTModel", "ViTConfig", **vision), dict(pixel_values=PICTURE)


def timm(library: Any) -> Iterator[tuple[str, Callable, dict]]:
    sized = {"vit_tiny_patch16_224": dict(img_size=64)}
    for name in ("resnet18", "vit_tiny_patch16_224", "mobilenetv3_small_050", "convnext_atto"):
        yield name, functools.partial(library.create_model, name, num_classes=10, **sized.get(name, {})), dict(x=PICTURE)


def diffusers(library: Any) -> Iterator[tuple[str, Callable, dict]]:
    small = PICTURE[:, :, :16, :16]
    blocks = dict(
        sample_size=16,
        layers_per_block=1,
        block_out_channels=(32, 32),
        norm_num_groups=8,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
    )
    yield "UNet2DModel", functools.partial(library.UNet2DModel, **blocks), dict(sample=small, timestep=5)
    coder = dict(block_out_channels=(32,), norm_num_groups=8, latent_channels=4)
    yield "AutoencoderKL", functools.partial(library.AutoencoderKL, **coder), dict(sample=small)


def check(name: str, make: Callable, inputs: dict) -> Row:
    """Two calls without gradients and one forward and backward, each beside eager's on a copy of the same model."""
    torch.manual_seed(0)
    model = make().eval()
    recorder = recording.Recorder()
    before = recording.use(recorder)
    try:
        with torch.no_grad():
            compiled = dynascope.compile(model)
            found = [tensors(compiled(**inputs)) for _ in range(2)]
        ours = gradients(dynascope.compile(trained := copy.deepcopy(model)), trained, inputs)
    finally:
        recording.use(before)
    with torch.no_grad():
        expected = tensors(model(**inputs))
    same = all(equal(f, expected) for f in found)
    theirs = gradients(model, model, inputs)
    return printed(name, recorder, same, equal(ours, theirs))


def printed(name: str, recorder: recording.Recorder, outputs: bool, gradients: bool) -> Row:
    report = recorder.report()
    reasons = [entry.reason for function in report.functions for entry in function.entries if entry.reason is not None]
    row = Row(name, len(report.graphs), len(reasons), len(report.kernels), outputs, gradients)
    print(f"  {' '.join(row.words())}", flush=True)
    for reason in dict.fromkeys((*report.notes, *reasons)):
        print(f"      [{reason.code}] {reason.span or ''} {reason.message}"[:200])
    return row


def gradients(call: Callable, model: torch.nn.Module, inputs: dict) -> list[torch.Tensor]:
    """Of all parameters that have one."""
    torch.manual_seed(0)
    sum(t.float().square().mean() for t in tensors(call(**inputs)) if t.requires_grad).backward()
    return [p.grad for p in model.parameters() if p.grad is not None]


def equal(found: list[torch.Tensor], expected: list[torch.Tensor]) -> bool:
    return len(found) == len(expected) and all(map(is_close, found, expected))


def is_close(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.dtype == other.dtype and torch.allclose(one, other, atol=1e-3, rtol=1e-3)


def tensors(output: Any) -> list[torch.Tensor]:
    if isinstance(output, torch.Tensor):
        return [output]
    if hasattr(output, "items"):
        return [found for value in output.values() for found in tensors(value)]
    if isinstance(output, (list, tuple)):
        return [found for value in output for found in tensors(value)]
    return [found for name in vars(output) for found in tensors(getattr(output, name))] if is_plain_object(output) else []


def is_plain_object(output: Any) -> bool:
    return hasattr(output, "__dataclass_fields__")


def train_with_accelerate(library: Any) -> list[Row]:
    """Three steps of training through `Accelerator.prepare`, against plain torch."""
    torch.manual_seed(0)
    plain = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    mine = copy.deepcopy(plain)
    accelerator, recorder = library.Accelerator(cpu=True), recording.Recorder()
    before = recording.use(recorder)
    compiled, optimizer = accelerator.prepare(dynascope.compile(mine), torch.optim.AdamW(mine.parameters()))
    for model, stepper, backward in (
        (plain, torch.optim.AdamW(plain.parameters()), torch.Tensor.backward),
        (compiled, optimizer, accelerator.backward),
    ):
        for _ in range(3):
            backward(model(PICTURE[0, 0, :4, :8]).square().mean())
            stepper.step()
            stepper.zero_grad()
    recording.use(before)
    same = equal(list(mine.parameters()), list(plain.parameters()))
    return [printed("three steps of training", recorder, same, same)]


def run(name: str) -> list[Row]:
    try:
        library = importlib.import_module(name)
    except ImportError as error:
        print(f"{name}: not installed here ({error})")
        return []
    title = f"{name} {library.__version__}"
    print(f"{title}, torch {torch.__version__}, Python {sys.version.split()[0]}")
    rows = train_with_accelerate(library) if name == "accelerate" else [check(*case) for case in MODELS[name](library)]
    return [dataclasses.replace(row, library=title) for row in rows]


MODELS = {"transformers": transformers, "timm": timm, "diffusers": diffusers, "accelerate": None}


def main() -> int:
    words = [word for word in sys.argv[1:] if word != "--write"]
    rows = [row for name in words or MODELS for row in run(name)]
    if "--write" in sys.argv:
        command, columns = "python bench/library_models.py --write", ["library", *Row.COLUMNS]
        write_section("Models of today's libraries", command, columns, [[row.library, *row.words()] for row in rows])
    return 0 if all(row.outputs and row.gradients for row in rows) else 1


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    sys.exit(main())
