"""The programs of `models.py`: models of transformers, timm and torch, small and with random weights, and what is called of them."""

from __future__ import annotations

import dataclasses
import functools
import importlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from scripts import scripts
from torch import nn

IDENTIFIERS = torch.arange(24).reshape(2, 12) * 7 % 90
MASK = torch.ones_like(IDENTIFIERS)
TEXT = dict(vocab_size=96, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4)
GROUPED = dict(TEXT, num_key_value_heads=2, max_position_embeddings=64, pad_token_id=0, bos_token_id=1, eos_token_id=2)
GPT2 = dict(vocab_size=96, n_embd=32, n_layer=2, n_head=4, bos_token_id=1, eos_token_id=2)
PICTURE = torch.linspace(-1, 1, 2 * 3 * 64 * 64).reshape(2, 3, 64, 64)
VISION = dict(
    hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, image_size=64, patch_size=16
)
ROWS = torch.linspace(-1, 1, 2 * 6 * 16).reshape(2, 6, 16)


def whole(model: nn.Module, compile: Callable[..., Any]) -> Callable[..., Any]:
    return compile(model)


def stepping(step: Callable[[nn.Module], Callable[..., Any]]) -> Callable[..., Any]:
    """What is compiled is a function around the model."""
    return lambda model, compile: compile(step(model))


@dataclasses.dataclass(frozen=True)
class Program:
    """`make` gives the model, `inputs` the arguments of its call; `prepare` compiles what is called."""

    name: str
    make: Callable[[], nn.Module]
    inputs: dict[str, Any]
    prepare: Callable[[nn.Module, Callable[..., Any]], Callable[..., Any]] = whole
    trains: bool = True
    backend: str = "eager"
    """What runs our graphs: sizes that only the run knows need ours."""


def of_transformers() -> Iterator[Program]:
    library = importlib.import_module("transformers")
    both = dict(input_ids=IDENTIFIERS, attention_mask=MASK)

    def made(name: str, family: str, **settings: Any) -> Callable[[], nn.Module]:
        return lambda: getattr(library, name)(getattr(library, f"{family}Config")(**settings))

    for family in ("Bert", "Roberta", "Electra", "Albert"):
        yield Program(f"{family}Model", made(f"{family}Model", family, **dict(TEXT, embedding_size=32)), both)
    distilled = dict(vocab_size=96, dim=32, hidden_dim=64, n_layers=2, n_heads=4)
    yield Program("DistilBertModel", made("DistilBertModel", "DistilBert", **distilled), both)
    gpt2 = made("GPT2LMHeadModel", "GPT2", **GPT2)
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
    text = dict(TEXT, max_position_embeddings=64, bos_token_id=1, eos_token_id=2)
    clip = dict(text_config=text, vision_config=VISION, projection_dim=16)
    yield Program("CLIPModel", made("CLIPModel", "CLIP", **clip), dict(both, pixel_values=PICTURE))
    long = dict(TEXT, attention_window=4, max_position_embeddings=64, pad_token_id=0)
    yield Program("LongformerModel", made("LongformerModel", "Longformer", **long), both)
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


def of_training() -> Iterator[Program]:
    """Language models trained as people train them: the whole step is compiled."""
    library = importlib.import_module("transformers")
    tokens = dict(input_ids=IDENTIFIERS, labels=IDENTIFIERS)
    mixtral = dict(GROUPED, num_local_experts=2, num_experts_per_tok=1)
    makes = {
        "GPT-2": functools.partial(library.GPT2LMHeadModel, library.GPT2Config(**GPT2)),
        "Llama": functools.partial(library.LlamaForCausalLM, library.LlamaConfig(**GROUPED)),
        "Mixtral": functools.partial(library.MixtralForCausalLM, library.MixtralConfig(**mixtral)),
    }
    for name, make in makes.items():
        yield Program(f"{name}, training step", make, tokens, stepping(language_step))


def language_step(model: nn.Module) -> Callable[..., Any]:
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)

    def step(**inputs: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = model(**inputs, use_cache=False).loss
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        return loss.detach()

    return step


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
    for trains in (False, True):
        name = f"TransformerEncoder, padding{', training' * trains}"
        yield Program(name, lambda: nn.TransformerEncoder(encoder(), 2), padded, trains=trains)
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
        yield Program(f"training step, {name}", make, dict(x=ROWS), stepping(functools.partial(training_step, optimizer)))


def of_scripts() -> Iterator[Program]:
    for name, make, inputs, step in scripts():
        yield Program(name, make, inputs, stepping(step))


def of_generation() -> Iterator[Program]:
    library = importlib.import_module("transformers")

    def generating(model: nn.Module, **settings: Any) -> Callable[..., Any]:
        def generate(input_ids: torch.Tensor) -> torch.Tensor:
            return model.generate(input_ids, max_new_tokens=5, do_sample=False, pad_token_id=0, **settings)

        return generate

    def with_forward(model: nn.Module, compile: Callable[..., Any], **settings: Any) -> Callable[..., Any]:
        model.forward = compile(model.forward)
        return generating(model, **settings)

    llama = functools.partial(library.LlamaForCausalLM, library.LlamaConfig(**GROUPED))
    gpt2 = functools.partial(library.GPT2LMHeadModel, library.GPT2Config(**GPT2))
    for name, make in (("Llama", llama), ("GPT-2", gpt2)):
        for cache in ("dynamic", "static"):
            settings = dict(cache_implementation=cache)
            of_forward = functools.partial(with_forward, **settings)
            of_all = stepping(functools.partial(generating, **settings))
            for what, prepare in (("forward", of_forward), ("all", of_all)):
                name_of_it = f"{name}.generate, {cache} cache, {what} compiled"
                yield Program(name_of_it, make, dict(input_ids=IDENTIFIERS), prepare, trains=False)


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


FAMILIES = (of_torch, of_scripts, of_einops, of_timm, of_transformers, of_training, of_generation)
