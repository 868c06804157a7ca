"""The architectures of transformers and timm, made small, for `architectures.py`: a model, and what it is called with."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

Given = Callable[[int, int], dict[str, torch.Tensor]]
"""The arguments of a call: of so many samples, of such a length."""

SIZES = {
    0: "pad_token_id",
    1: "bos_token_id decoder_start_token_id first_k_dense_replace",
    2: "num_key_value_heads num_experts_per_tok type_vocab_size mlp_ratio eos_token_id num_hidden_layers n_layer n_layers num_layers"
    " encoder_layers decoder_layers num_decoder_layers",
    4: "num_experts num_local_experts n_routed_experts num_attention_heads n_head n_heads num_heads encoder_attention_heads"
    " decoder_attention_heads",
    8: "head_dim d_kv d_head rotary_dim state_size qk_rope_head_dim qk_nope_head_dim v_head_dim patch_size",
    16: "kv_lora_rank q_lora_rank projection_dim sliding_window num_mel_bins",
    32: "hidden_size d_model n_embd dim embedding_size word_embed_proj_dim d_embed moe_intermediate_size image_size",
    64: "intermediate_size ffn_dim d_ff n_inner encoder_ffn_dim decoder_ffn_dim hidden_dim ffn_hidden_size d_inner",
    128: "max_position_embeddings n_positions",
    130: "vocab_size",
}
SMALL = {name: size for size, names in SIZES.items() for name in names.split()}
"""Of what a configuration says, as far as it says it with an int."""
MOST_PARAMETERS = 60_000_000


class NotTried(Exception):
    """Why a model is left out."""


def transformers_names() -> list[str]:
    from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

    return sorted(MODEL_MAPPING_NAMES)


def transformers_model(name: str) -> tuple[nn.Module, Given]:
    import transformers

    config = made_small(transformers.CONFIG_MAPPING[name]())
    model = transformers.AutoModel.from_config(config)
    accepted, main = inspect.signature(model.forward).parameters, model.main_input_name
    if main not in ("input_ids", "pixel_values", "input_values"):
        raise NotTried(f"it takes {main}")
    parts = (config, getattr(config, "vision_config", None))
    side = next((each for part in parts if isinstance(each := getattr(part, "image_size", None), int)), 32)

    def given(samples: int, length: int) -> dict[str, torch.Tensor]:
        found = {}
        if main == "input_ids":
            found["input_ids"] = torch.randint(3, 100, (samples, length))
        if main == "pixel_values":
            found["pixel_values"] = torch.randn(samples, getattr(config, "num_channels", 3), side, side)
        if main == "input_values":
            found["input_values"] = torch.randn(samples, 2000 + 40 * length)
        if "decoder_input_ids" in accepted and main != "pixel_values":
            found["decoder_input_ids"] = torch.randint(3, 100, (samples, length))
        return found

    return model, given


def made_small(config: Any, depth: int = 3) -> Any:
    """The configuration with small sizes where it has any, and those inside it."""
    for name, number in SMALL.items():
        if type(getattr(config, name, None)) is int:
            setattr(config, name, number)
    if isinstance(kinds := getattr(config, "layer_types", None), list):
        config.layer_types = (list(dict.fromkeys(kinds)) * 2)[:2]
    for inner in list(vars(config).values()) if depth else ():
        if hasattr(inner, "to_dict"):
            made_small(inner, depth - 1)
    return config


def timm_names() -> list[str]:
    """The one of the shortest name of each file of models."""
    import timm

    families: dict[str, str] = {}
    for name in sorted(timm.list_models(), key=len):
        families.setdefault(timm.models.model_entrypoint(name).__module__, name)
    return sorted(families.values())


def timm_model(name: str) -> tuple[nn.Module, Given]:
    import timm

    model = timm.create_model(name, num_classes=10)
    channels, side, _ = model.default_cfg["input_size"]
    (argument, *_) = inspect.signature(model.forward).parameters
    try:
        model.eval()(torch.randn(1, channels, 96, 96))
        side = 96
    except (RuntimeError, AssertionError, ValueError):
        pass  # made for images of one size
    return model, lambda samples, length: {argument: torch.randn(samples, channels, side, side)}


LIBRARIES: dict[str, tuple[Callable[[], list[str]], Callable[[str], tuple[nn.Module, Given]]]] = {
    "transformers": (transformers_names, transformers_model),
    "timm": (timm_names, timm_model),
}
