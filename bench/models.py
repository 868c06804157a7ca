"""Models and training code as people write them, compiled by both, against eager: graphs, breaks, and whether all is equal.

    python bench/models.py [-k PART_OF_A_NAME] [--write]

Random weights, small configurations, nothing is downloaded; what is not installed is said and left out. Each program runs twice
forward and backward, on each side on a copy of the same model: outputs and gradients are compared with eager's. Both sides run
their graphs as they are (a counting backend), so that this is about capture alone. No times.
"""

from __future__ import annotations

import argparse
import copy
import dataclasses
import functools
import importlib
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import dynascope
import torch
from dynascope import recording
from results import write_section
from scripts import scripts
from torch import nn

IDENTIFIERS = torch.arange(24).reshape(2, 12) * 7 % 90
MASK = torch.ones_like(IDENTIFIERS)
TEXT = dict(vocab_size=96, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4)
GROUPED = dict(TEXT, num_key_value_heads=2, max_position_embeddings=64, pad_token_id=0, bos_token_id=1, eos_token_id=2)
PICTURE = torch.linspace(-1, 1, 2 * 3 * 64 * 64).reshape(2, 3, 64, 64)
VISION = dict(
    hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, image_size=64, patch_size=16
)
ROWS = torch.linspace(-1, 1, 2 * 6 * 16).reshape(2, 6, 16)


@dataclasses.dataclass(frozen=True)
class Program:
    """`make` gives the model, `inputs` the arguments of its call; `step` is what is compiled where it is not the model itself."""

    name: str
    make: Callable[[], nn.Module]
    inputs: dict[str, Any]
    step: Callable[[nn.Module], Callable[..., Any]] | None = None
    backend: str = "eager"
    """What runs our graphs: sizes that only the run knows need ours."""


@dataclasses.dataclass
class Outcome:
    graphs: int = 0
    breaks: int = 0
    answer: str = "equal"


def of_transformers() -> Iterator[Program]:
    library = importlib.import_module("transformers")
    both = dict(input_ids=IDENTIFIERS, attention_mask=MASK)

    def made(name: str, family: str, **settings: Any) -> Callable[[], nn.Module]:
        return lambda: getattr(library, name)(getattr(library, f"{family}Config")(**settings))

    for family in ("Bert", "Roberta", "Electra", "Albert"):
        yield Program(f"{family}Model", made(f"{family}Model", family, **dict(TEXT, embedding_size=32)), both)
    distilled = dict(vocab_size=96, dim=32, hidden_dim=64, n_layers=2, n_heads=4)
    yield Program("DistilBertModel", made("DistilBertModel", "DistilBert", **distilled), both)
    gpt2 = made("GPT2LMHeadModel", "GPT2", vocab_size=96, n_embd=32, n_layer=2, n_head=4)
    for cached in (False, True):
        yield Program(f"GPT2LMHeadModel{', cache' * cached}", gpt2, dict(both, use_cache=cached))
    for family in ("Llama", "Qwen2", "Mistral", "Gemma", "Phi", "GPTNeoX", "Qwen3", "Mixtral"):
        more = dict(head_dim=8) if family in ("Gemma", "Qwen3") else {}
        more |= dict(num_local_experts=2, num_experts_per_tok=1) if family == "Mixtral" else {}
        for cached in (False, True):
            label = f"{family}ForCausalLM{', cache' * cached}"
            yield Program(label, made(f"{family}ForCausalLM", family, **GROUPED, **more), dict(both, use_cache=cached))
    opt = dict(
        vocab_size=96, hidden_size=32, ffn_dim=64, num_hidden_layers=2, num_attention_heads=4, word_embed_proj_dim=32
    )
    yield Program("OPTModel", made("OPTModel", "OPT", **opt), dict(both, use_cache=False))
    t5 = dict(vocab_size=96, d_model=32, d_ff=64, d_kv=8, num_layers=2, num_heads=4)
    yield Program("T5Model", made("T5Model", "T5", **t5), dict(both, decoder_input_ids=IDENTIFIERS, use_cache=False))
    yield Program("ViTModel", made("ViTModel", "ViT", **VISION), dict(pixel_values=PICTURE))
    yield Program("CLIPVisionModel", made("CLIPVisionModel", "CLIPVision", **VISION), dict(pixel_values=PICTURE))
    swin = dict(image_size=64, patch_size=4, embed_dim=16, depths=[1, 1], num_heads=[2, 2], window_size=4)
    yield Program("SwinModel", made("SwinModel", "Swin", **swin), dict(pixel_values=PICTURE))
    convolutions = dict(hidden_sizes=[8, 16, 16, 16], depths=[1, 1, 1, 1])
    yield Program("ConvNextModel", made("ConvNextModel", "ConvNext", **convolutions), dict(pixel_values=PICTURE))
    residual = dict(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic")
    yield Program("ResNetModel", made("ResNetModel", "ResNet", **residual), dict(pixel_values=PICTURE))
    whisper = dict(
        vocab_size=96,
        d_model=32,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
    )
    whisper |= dict(
        encoder_ffn_dim=64, decoder_ffn_dim=64, num_mel_bins=8, max_source_positions=20, max_target_positions=32
    )
    whisper |= dict(pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1)
    features = torch.linspace(-1, 1, 2 * 8 * 40).reshape(2, 8, 40)
    heard = dict(input_features=features, decoder_input_ids=IDENTIFIERS, use_cache=False)
    yield Program("WhisperModel", made("WhisperModel", "Whisper", **whisper), heard)
    yield Program("DebertaV2Model", made("DebertaV2Model", "DebertaV2", **TEXT), both)
    mamba = dict(vocab_size=96, hidden_size=16, state_size=4, num_hidden_layers=2)
    yield Program("MambaModel", made("MambaModel", "Mamba", **mamba), dict(input_ids=IDENTIFIERS, use_cache=False))
    segformer = dict(num_encoder_blocks=2, depths=[1, 1], sr_ratios=[2, 1], hidden_sizes=[8, 16], patch_sizes=[7, 3])
    segformer |= dict(strides=[4, 2], num_attention_heads=[1, 2], mlp_ratios=[2, 2])
    yield Program("SegformerModel", made("SegformerModel", "Segformer", **segformer), dict(pixel_values=PICTURE))


def of_timm() -> Iterator[Program]:
    library = importlib.import_module("timm")
    sized = {"vit_tiny_patch16_224": dict(img_size=64)}
    for name in (
        "resnet18",
        "vit_tiny_patch16_224",
        "mobilenetv3_small_050",
        "convnext_atto",
        "efficientnet_lite0",
        "mixer_s32_224",
    ):
        picture = torch.nn.functional.interpolate(PICTURE, 224) if "mixer" in name else PICTURE
        make = functools.partial(library.create_model, name, num_classes=10, **sized.get(name, {}))
        yield Program(f"timm {name}", make, dict(x=picture))


def of_einops() -> Iterator[Program]:
    library = importlib.import_module("einops")
    layers = importlib.import_module("einops.layers.torch")

    class Patches(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cut = layers.Rearrange("b c (h p) (w q) -> b (h w) (p q c)", p=16, q=16)
            self.project = nn.Linear(768, 8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            heads = library.rearrange(self.project(self.cut(x)), "b n (h d) -> b h n d", h=2)
            return library.reduce(heads, "b h n d -> b d", "mean") + library.repeat(heads[:, 0, 0, 0], "b -> b d", d=4)

    yield Program("einops patches", Patches, dict(x=PICTURE))


class Recurrent(nn.Module):
    def __init__(self, kind: type[nn.Module], packed: bool) -> None:
        super().__init__()
        self.layer, self.packed = kind(16, 8, batch_first=True), packed

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not self.packed:
            return self.layer(x)[0]
        rows = nn.utils.rnn.pack_padded_sequence(x, torch.tensor([6, 4]), batch_first=True)
        return nn.utils.rnn.pad_packed_sequence(self.layer(rows)[0], batch_first=True)[0]


class Experts(nn.Module):
    """A mixture of experts by hand, each on the rows that chose it."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.experts = nn.Linear(16, 3), nn.ModuleList(nn.Linear(16, 16) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weights = self.gate(x).softmax(-1)
        best = torch.topk(weights, 2, dim=-1)
        chosen = torch.zeros_like(weights).scatter(-1, best.indices, best.values)
        return sum(expert(x) * chosen[..., at, None] for at, expert in enumerate(self.experts))


def of_torch() -> Iterator[Program]:
    square = nn.Transformer.generate_square_subsequent_mask(6)
    encoder = functools.partial(nn.TransformerEncoderLayer, 16, 2, 32, dropout=0.0, batch_first=True)
    yield Program("TransformerEncoderLayer, mask", encoder, dict(src=ROWS, src_mask=square))
    padded = dict(src=ROWS, src_key_padding_mask=ROWS[..., 0] > 0.9)
    yield Program("TransformerEncoder, padding", lambda: nn.TransformerEncoder(encoder(), 2), padded)
    whole = functools.partial(nn.Transformer, 16, 2, 1, 1, 32, dropout=0.0, batch_first=True)
    yield Program("Transformer, masks", whole, dict(src=ROWS, tgt=ROWS * 2, tgt_mask=square))
    attention = functools.partial(nn.MultiheadAttention, 16, 2, batch_first=True)
    yield Program("MultiheadAttention", attention, dict(query=ROWS, key=ROWS, value=ROWS, attn_mask=square))
    for kind in (nn.LSTM, nn.GRU, nn.RNN):
        for packed in (False, True):
            yield Program(
                f"{kind.__name__}{', packed' * packed}",
                functools.partial(Recurrent, kind, packed),
                dict(x=ROWS),
                backend="dynascope" if packed else "eager",
            )
    yield Program("mixture of experts", Experts, dict(x=ROWS))
    for name, optimizer in OPTIMIZERS.items():
        make = functools.partial(nn.Sequential, nn.Linear(16, 8), nn.Tanh(), nn.Linear(8, 2))
        yield Program(f"training step, {name}", make, dict(x=ROWS), functools.partial(training_step, optimizer))


def of_scripts() -> Iterator[Program]:
    yield from (Program(*each) for each in scripts())


def of_generation() -> Iterator[Program]:
    library = importlib.import_module("transformers")

    def generating(model: nn.Module, **settings: Any) -> Callable[..., Any]:
        def generate(input_ids: torch.Tensor) -> torch.Tensor:
            return model.generate(input_ids, max_new_tokens=5, do_sample=False, pad_token_id=0, **settings)

        return generate

    config = library.LlamaConfig(**GROUPED)
    for cache in ("dynamic", "static"):
        step = functools.partial(generating, cache_implementation=cache)
        make = functools.partial(library.LlamaForCausalLM, config)
        yield Program(f"LlamaForCausalLM.generate, {cache} cache", make, dict(input_ids=IDENTIFIERS), step)


OPTIMIZERS: dict[str, Callable[..., Any]] = {
    "SGD": lambda parameters: torch.optim.SGD(parameters, 0.1, momentum=0.9),
    "Adam": lambda parameters: torch.optim.Adam(parameters, 0.1),
    "AdamW, clipped, scheduled": lambda parameters: torch.optim.AdamW(parameters, 0.1),
}


def training_step(optimizer: Callable[..., Any], model: nn.Module) -> Callable[..., Any]:
    stepper = optimizer(model.parameters())
    scheduler = torch.optim.lr_scheduler.StepLR(stepper, 2)
    is_long = isinstance(stepper, torch.optim.AdamW)

    def step(x: torch.Tensor) -> torch.Tensor:
        stepper.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        if is_long:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        stepper.step()
        if is_long:
            scheduler.step()
        return loss.detach()

    return step


def tensors(output: Any) -> list[torch.Tensor]:
    if isinstance(output, torch.Tensor):
        return [output]
    if hasattr(output, "items"):
        return [found for value in output.values() for found in tensors(value)]
    if isinstance(output, (list, tuple)):
        return [found for value in output for found in tensors(value)]
    layers = getattr(output, "layers", None)  # a cache of transformers
    return [found for layer in layers for found in tensors([layer.keys, layer.values])] if layers else []


def played(program: Program, compile: Callable[..., Any] | None) -> list[torch.Tensor]:
    """Outputs, gradients and parameters after two rounds."""
    torch.manual_seed(0)
    model = program.make().eval()
    model = copy.deepcopy(model)
    function = model if program.step is None else program.step(model)
    call = function if compile is None else compile(function)
    found: list[torch.Tensor] = []
    for _ in range(2):
        given = tensors(call(**copy.deepcopy(program.inputs)))
        found += [tensor.detach().clone() for tensor in given]
        losses = [tensor.float().square().mean() for tensor in given if tensor.requires_grad]
        if losses:
            torch.stack(losses).sum().backward()
    found += [each.grad.clone() for each in model.parameters() if each.grad is not None]
    return found + [each.detach().clone() for each in (*model.parameters(), *model.buffers())]


def ours(program: Program, expected: list[torch.Tensor]) -> Outcome:
    recorder = recording.Recorder()
    before = recording.use(recorder)
    dynascope.reset()
    try:
        answer = compared(expected, lambda: played(program, functools.partial(dynascope.compile, backend=program.backend)))
    finally:
        recording.use(before)
    report = recorder.report()
    reasons = [entry.reason for function in report.functions for entry in function.entries if entry.reason is not None]
    if arguments.verbose:
        for reason in dict.fromkeys((*report.notes, *reasons)):
            print(f"      [{reason.code}] {reason.span or ''} {reason.message}"[:300])
    return Outcome(len(report.graphs), len(reasons), answer)


def theirs(program: Program, expected: list[torch.Tensor]) -> Outcome:
    import torch._dynamo as dynamo

    dynamo.reset()
    dynamo.utils.counters.clear()
    outcome = Outcome()

    def counting(module: Any, inputs: Any) -> Any:
        outcome.graphs += 1
        return module.forward

    outcome.answer = compared(expected, lambda: played(program, functools.partial(torch.compile, backend=counting)))
    outcome.breaks = sum(dynamo.utils.counters["graph_break"].values())
    return outcome


def compared(expected: list[torch.Tensor], play: Callable[[], list[torch.Tensor]]) -> str:
    try:
        found = play()
    except Exception as error:
        return f"{type(error).__name__}"
    same = len(found) == len(expected) and all(map(is_close, found, expected))
    return "equal" if same else "DIFFERS"


def is_close(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.dtype == other.dtype and one.shape == other.shape and torch.allclose(one, other, atol=1e-4, rtol=1e-4)


def programs() -> Iterator[Program]:
    for family in (of_torch, of_scripts, of_einops, of_timm, of_transformers, of_generation):
        try:
            yield from family()
        except ImportError as error:
            print(f"{family.__name__}: not installed here ({error})")


def main() -> None:
    played_by_eager: list[tuple[Program, list[torch.Tensor], Outcome]] = []
    for program in programs():
        if arguments.k not in program.name:
            continue
        try:
            expected = played(program, None)
        except Exception as error:
            print(f"{program.name}: not run by plain torch ({type(error).__name__}: {error})"[:160])
            continue
        played_by_eager.append((program, expected, ours(program, expected)))
    rows: list[list[str]] = []
    for program, expected, mine in played_by_eager:  # torch's compiler patches torch.nn once it is imported
        other = theirs(program, expected) if not arguments.alone else Outcome()
        rows.append([program.name, *map(str, dataclasses.astuple(mine)), *map(str, dataclasses.astuple(other))])
        print("  ".join(rows[-1]), flush=True)
    columns = ["program", "our graphs", "breaks", "answer", "torch.compile's graphs", "breaks", "answer"]
    whole = sum(int(row[1]) <= int(row[4]) and int(row[2]) <= int(row[5]) for row in rows)
    equal = sum(row[3] == "equal" for row in rows)
    note = f"Of {len(rows)} programs {whole} have no more graphs and no more breaks than torch.compile; {equal} equal eager."
    print(note)
    if arguments.write:
        write_section("Models", "python bench/models.py --write", columns, rows, note)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Graphs and breaks of models, ours beside torch.compile's.")
    parser.add_argument("-k", default="", help="only programs with this in their name")
    parser.add_argument("--write", action="store_true", help="write the section of RESULTS.md")
    parser.add_argument("--alone", action="store_true", help="leave torch.compile out")
    parser.add_argument("-v", "--verbose", action="store_true", help="say why graphs ended")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    sys.exit(main())
