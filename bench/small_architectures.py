"""The architectures of transformers, timm, torchvision, torchaudio and torch-geometric, made small, for `architectures.py`: a model, and
what it is called with."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

Given = Callable[[int, int], dict[str, Any]]
"""The arguments of a call, tensors and lists of them: of so many samples, of such a length."""

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


def torchvision_names() -> list[str]:
    """The one of the shortest name of each file of models."""
    import torchvision

    families: dict[str, str] = {}
    for name in sorted(torchvision.models.list_models(), key=len):
        module = torchvision.models.get_model_builder(name).__module__
        if ".quantization." not in module:
            families.setdefault(module, name)
    return sorted(families.values())


def torchvision_model(name: str) -> tuple[nn.Module, Given]:
    import torchvision

    builder = torchvision.models.get_model_builder(name)
    module, accepted = builder.__module__, inspect.signature(builder).parameters
    backbone: dict[str, Any] = {"weights_backbone": None} if "weights_backbone" in accepted else {}
    model = builder(weights=None, **backbone)
    (argument, *others) = inspect.signature(model.forward).parameters
    if ".detection." in module:
        return model, _boxes
    if ".optical_flow." in module:
        return model, lambda samples, length: {each: torch.randn(samples, 3, 128, 128) for each in (argument, others[0])}
    side = getattr(model, "image_size", 224 if ".maxvit" in module or ".video." in module else 96)
    frames = (16,) if ".video." in module else ()
    return model, lambda samples, length: {argument: torch.randn(samples, 3, *frames, side, side)}


def _boxes(samples: int, length: int) -> dict[str, Any]:
    """Images of two sizes with three boxes each, as detectors are trained."""
    corners = torch.rand(samples, 3, 2) * 40
    targets: list[dict[str, Any]] = []
    for at in range(samples):
        masks, keypoints = torch.zeros(3, 96, 96 + length, dtype=torch.uint8), torch.rand(3, 17, 3) * 90
        masks[:, 10:50, 10:50] = 1
        keypoints[..., 2] = 1
        boxes = torch.cat([corners[at], corners[at] + 20 + torch.rand(3, 2) * 30], 1)
        targets.append({"boxes": boxes, "labels": torch.randint(1, 2, (3,)), "masks": masks, "keypoints": keypoints})
    return {"images": [torch.rand(3, 96, 96 + length) for _ in range(samples)], "targets": targets}


def torchaudio_names() -> list[str]:
    return ["conformer", "conv_tasnet", "deepspeech", "emformer", "hdemucs", "rnnt", "tacotron2", "wav2letter", "wav2vec2", "wavernn"]


def torchaudio_model(name: str) -> tuple[nn.Module, Given]:
    from torchaudio import models

    def lengths(samples: int, most: int) -> torch.Tensor:
        return torch.arange(most, most - samples, -1)

    def spectrum(model: nn.Module, first: str, second: str) -> tuple[nn.Module, Given]:
        return model, lambda n, length: {first: torch.randn(n, 2 * length, 32), second: lengths(n, 2 * length)}

    def sounds(model: nn.Module, name: str, channels: tuple[int, ...] = ()) -> tuple[nn.Module, Given]:
        return model, lambda n, length: {name: torch.randn(n, *channels, 4000 + 40 * length)}

    def transducer() -> tuple[nn.Module, Given]:
        model = models.emformer_rnnt_model(
            input_dim=32, encoding_dim=32, num_symbols=20, segment_length=8, right_context_length=4, time_reduction_input_dim=16,
            time_reduction_stride=2, transformer_num_heads=2, transformer_ffn_dim=32, transformer_num_layers=2, transformer_dropout=0.0,
            transformer_activation="gelu", transformer_left_context_length=8, transformer_max_memory_size=0,
            transformer_weight_init_scale_strategy="depthwise", transformer_tanh_on_mem=True, symbol_embedding_dim=16, num_lstm_layers=1,
            lstm_layer_norm=True, lstm_layer_norm_epsilon=1e-3, lstm_dropout=0.0,
        )  # fmt: skip
        return model, lambda n, length: {
            "sources": torch.randn(n, 4 * length + 4, 32), "source_lengths": lengths(n, 4 * length).int(),
            "targets": torch.randint(20, (n, length)).int(), "target_lengths": lengths(n, length).int(),
        }  # fmt: skip

    def speech() -> tuple[nn.Module, Given]:
        model = models.Tacotron2(
            n_mels=16, n_symbol=20, symbol_embedding_dim=32, encoder_embedding_dim=32, decoder_rnn_dim=32, attention_rnn_dim=32,
            attention_hidden_dim=16, prenet_dim=16, postnet_embedding_dim=16, decoder_max_step=20,
        )  # fmt: skip
        return model, lambda n, length: {
            "tokens": torch.randint(20, (n, length)), "token_lengths": lengths(n, length),
            "mel_specgram": torch.randn(n, 16, length), "mel_specgram_lengths": lengths(n, length),
        }  # fmt: skip

    def waves() -> tuple[nn.Module, Given]:
        model = models.WaveRNN([2, 2, 5], n_classes=32, hop_length=20, n_res_block=2, n_rnn=32, n_fc=32, n_hidden=16, n_output=16)
        return model, lambda n, length: {
            "waveform": torch.randn(n, 1, length * 20), "specgram": torch.randn(n, 1, 128, length + 4),
        }  # fmt: skip

    makers: dict[str, Callable[[], tuple[nn.Module, Given]]] = {
        "conformer": lambda: spectrum(models.Conformer(32, 4, 64, 2, 7), "input", "lengths"),
        "conv_tasnet": lambda: sounds(models.conv_tasnet_base(), "input", (1,)),
        "deepspeech": lambda: (models.DeepSpeech(32, 64, 20), lambda n, length: {"x": torch.randn(n, 1, length, 32)}),
        "emformer": lambda: (
            models.Emformer(32, 4, 64, 2, 8, right_context_length=4),
            lambda n, length: {"input": torch.randn(n, 4 * length + 4, 32), "lengths": lengths(n, 4 * length)},
        ),
        "hdemucs": lambda: sounds(models.hdemucs_low(["drums", "bass"]), "input", (2,)),
        "rnnt": transducer,
        "tacotron2": speech,
        "wav2letter": lambda: sounds(models.Wav2Letter(20), "x", (1,)),
        "wav2vec2": lambda: sounds(models.wav2vec2_base(encoder_projection_dropout=0.0, encoder_layer_drop=0.5), "waveforms"),
        "wavernn": waves,
    }
    return makers[name]()


TOLD = {
    "in_channels": 16, "out_channels": 16, "hidden_channels": 16, "channels": 16, "edge_channels": 8, "edge_dim": 8, "dim": 8,
    "num_layers": 2, "kernel_size": 3, "heads": 2, "num_relations": 3, "K": 2, "k": 4, "alpha": 0.1, "filter_size": 2,
    "space_dimensions": 3, "propagate_dimensions": 8, "first_aggr": True, "aggregators": ["mean", "max", "std"],
    "scalers": ["identity", "amplification"], "deg": torch.tensor([0, 3, 9, 7, 2]), "local_nn": None, "global_nn": None,
}  # fmt: skip
"""What layers of torch-geometric are made with, where they must be told."""


def geometric_names() -> list[str]:
    """Layers and whole networks that are made of so many channels, and called with nodes and edges."""
    from torch_geometric import nn as layers

    found = {*layers.conv.__all__, *layers.models.basic_gnn.__all__}
    return sorted(name for name in found if isinstance(getattr(layers, name, None), type))


def geometric_model(name: str) -> tuple[nn.Module, Given]:
    from torch_geometric import nn as layers

    cls = getattr(layers, name)
    accepted = inspect.signature(cls.__init__).parameters
    told = TOLD | {"conv": layers.GCNConv(16, 16), "nn": nn.Linear(32 if name in ("EdgeConv", "DynamicEdgeConv") else 16, 16)}
    if name == "NNConv":
        told["nn"] = nn.Linear(8, 256)
    required = [key for key, parameter in accepted.items() if parameter.default is inspect.Parameter.empty]
    model = cls(**{key: told[key] for key in required if key in told}, **({"edge_dim": 8} if name == "GINEConv" else {}))
    wanted = inspect.signature(model.forward).parameters

    def graph(samples: int, length: int) -> dict[str, Any]:
        nodes = samples * length
        edges = torch.randint(nodes, (2, 3 * nodes))
        made: dict[str, Callable[[], torch.Tensor]] = {
            "x": lambda: torch.randn(nodes, 16),
            "x_0": lambda: torch.randn(nodes, 16),
            "pos": lambda: torch.randn(nodes, 3),
            "batch": lambda: torch.arange(samples).repeat_interleave(length),
            "edge_index": lambda: edges,
            "hyperedge_index": lambda: edges % length,
            "edge_type": lambda: torch.randint(3, (3 * nodes,)),
            "edge_attr": lambda: torch.randn(3 * nodes, 8),
        }
        optional = () if name in ("GINEConv", "GMMConv", "NNConv", "PDNConv") else ("batch", "edge_attr")
        return {
            key: make()
            for key, make in made.items()
            if key in wanted and (key not in optional or wanted[key].default is inspect.Parameter.empty)
        }

    return model, graph


LIBRARIES: dict[str, tuple[Callable[[], list[str]], Callable[[str], tuple[nn.Module, Given]]]] = {
    "transformers": (transformers_names, transformers_model),
    "timm": (timm_names, timm_model),
    "torchvision": (torchvision_names, torchvision_model),
    "torchaudio": (torchaudio_names, torchaudio_model),
    "torch_geometric": (geometric_names, geometric_model),
}
