"""Models of libraries as people have them today (transformers, timm, diffusers, accelerate), small and with random weights,
compiled against eager: that they run, give the same, and in how many graphs.

    python bench/library_models.py [LIBRARY ...]

A library that is not installed here is said and passed over. Nothing is downloaded.
"""

from __future__ import annotations

import copy
import functools
import importlib
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import dynascope
import torch
from dynascope import recording

IDENTIFIERS = torch.arange(24).reshape(2, 12) * 7 % 90
TOKENS = dict(input_ids=IDENTIFIERS, attention_mask=torch.ones_like(IDENTIFIERS))
TEXT = dict(vocab_size=96, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4)
PICTURE = torch.linspace(-1, 1, 2 * 3 * 64 * 64).reshape(2, 3, 64, 64)


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


def check(name: str, make: Callable, inputs: dict) -> bool:
    torch.manual_seed(0)
    model = make().eval()
    recorder = recording.Recorder()
    with torch.no_grad():
        expected = tensors(model(**inputs))
        before = recording.use(recorder)
        try:
            compiled = dynascope.compile(model)
            found = [tensors(compiled(**inputs)) for _ in range(2)]
        finally:
            recording.use(before)
    same = all(len(f) == len(expected) and all(map(is_close, f, expected)) for f in found)
    report = recorder.report()
    reasons = [entry.reason for function in report.functions for entry in function.entries if entry.reason is not None]
    print(f"  {name:24} {'same' if same else 'DIFFERS'}  {len(report.graphs)} graphs  {len(reasons)} breaks", flush=True)
    for reason in dict.fromkeys((*report.notes, *reasons)):
        print(f"      [{reason.code}] {reason.span or ''} {reason.message}"[:200])
    return same


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


def train_with_accelerate(library: Any) -> bool:
    """Three steps of training through `Accelerator.prepare`, against plain torch."""
    torch.manual_seed(0)
    plain = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    mine = copy.deepcopy(plain)
    accelerator = library.Accelerator(cpu=True)
    compiled, optimizer = accelerator.prepare(dynascope.compile(mine), torch.optim.AdamW(mine.parameters()))
    for model, stepper, backward in (
        (plain, torch.optim.AdamW(plain.parameters()), torch.Tensor.backward),
        (compiled, optimizer, accelerator.backward),
    ):
        for _ in range(3):
            backward(model(PICTURE[0, 0, :4, :8]).square().mean())
            stepper.step()
            stepper.zero_grad()
    same = all(map(is_close, mine.parameters(), plain.parameters()))
    print(f"  three steps of training  {'same' if same else 'DIFFERS'}")
    return same


def run(name: str) -> bool:
    try:
        library = importlib.import_module(name)
    except ImportError as error:
        print(f"{name}: not installed here ({error})")
        return True
    print(f"{name} {library.__version__}, torch {torch.__version__}, Python {sys.version.split()[0]}")
    if name == "accelerate":
        return train_with_accelerate(library)
    outcomes = [check(*case) for case in MODELS[name](library)]
    return all(outcomes)


MODELS = {"transformers": transformers, "timm": timm, "diffusers": diffusers, "accelerate": None}

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    found = [run(name) for name in sys.argv[1:] or MODELS]
    sys.exit(0 if all(found) else 1)
