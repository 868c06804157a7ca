"""The programs of `models.py` that are language models: the families of transformers that people train and serve, small."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from model_programs import GROUPED, IDENTIFIERS, MASK, TEXT, Program
from torch import nn

BOTH = dict(input_ids=IDENTIFIERS, attention_mask=MASK)
WORDS = dict(vocab_size=96, pad_token_id=0, bos_token_id=1, eos_token_id=2)
PAIRED = dict(
    WORDS,
    d_model=32,
    encoder_layers=1,
    decoder_layers=1,
    encoder_attention_heads=4,
    decoder_attention_heads=4,
    encoder_ffn_dim=64,
    decoder_ffn_dim=64,
    decoder_start_token_id=2,
)
EXPERTS = dict(num_local_experts=4, num_experts_per_tok=2)


def made(name: str, family: str, **settings: Any) -> Callable[[], nn.Module]:
    library = importlib.import_module("transformers")
    return lambda: getattr(library, name)(getattr(library, f"{family}Config")(**settings))


def of_decoders() -> Iterator[Program]:
    """Decoders, with the cache that they return and without."""
    narrow = dict(GROUPED, head_dim=8)
    alternating = dict(narrow, layer_types=["sliding_attention", "full_attention"], sliding_window=4)
    families: dict[str, tuple[str, dict[str, Any]]] = {
        "Gemma2ForCausalLM": ("Gemma2", dict(narrow, query_pre_attn_scalar=8, sliding_window=4)),
        "Gemma3ForCausalLM": ("Gemma3Text", alternating),
        "Llama4ForCausalLM": ("Llama4Text", dict(narrow, intermediate_size_mlp=64, attention_chunk_size=8, **EXPERTS)),
        "GraniteForCausalLM": ("Granite", GROUPED),
        "GraniteMoeForCausalLM": ("GraniteMoe", dict(GROUPED, **EXPERTS)),
        "Olmo2ForCausalLM": ("Olmo2", GROUPED),
        "OlmoeForCausalLM": ("Olmoe", dict(GROUPED, num_experts=4, num_experts_per_tok=2)),
        "CohereForCausalLM": ("Cohere", GROUPED),
        "Cohere2ForCausalLM": ("Cohere2", dict(GROUPED, sliding_window=4)),
        "DeepseekV3ForCausalLM": (
            "DeepseekV3",
            dict(
                GROUPED,
                num_key_value_heads=4,
                moe_intermediate_size=16,
                n_routed_experts=4,
                num_experts_per_tok=2,
                n_group=2,
                topk_group=1,
                kv_lora_rank=8,
                q_lora_rank=8,
                qk_rope_head_dim=8,
                v_head_dim=8,
                qk_nope_head_dim=8,
                first_k_dense_replace=1,
            ),
        ),
        "GptOssForCausalLM": ("GptOss", dict(alternating, **EXPERTS)),
        "Qwen3MoeForCausalLM": (
            "Qwen3Moe", dict(narrow, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16)
        ),
        "Phi3ForCausalLM": ("Phi3", GROUPED),
        "StableLmForCausalLM": ("StableLm", GROUPED),
        "Starcoder2ForCausalLM": ("Starcoder2", GROUPED),
        "Glm4ForCausalLM": ("Glm4", dict(narrow, partial_rotary_factor=0.5)),
        "NemotronForCausalLM": ("Nemotron", GROUPED),
        "SmolLM3ForCausalLM": ("SmolLM3", GROUPED),
        "FalconForCausalLM": ("Falcon", TEXT),
        "BloomForCausalLM": ("Bloom", dict(WORDS, hidden_size=32, n_layer=2, n_head=4)),
        "MptForCausalLM": ("Mpt", dict(vocab_size=96, d_model=32, n_heads=4, n_layers=2, max_seq_len=64)),
        "CodeGenForCausalLM": ("CodeGen", dict(WORDS, n_embd=32, n_layer=2, n_head=4, rotary_dim=4, n_positions=64)),
        "GPTJForCausalLM": ("GPTJ", dict(WORDS, n_embd=32, n_layer=2, n_head=4, rotary_dim=4, n_positions=64)),
        "GPTNeoForCausalLM": (
            "GPTNeo",
            dict(
                WORDS, hidden_size=32, num_layers=2, num_heads=4, attention_types=[[["global", "local"], 1]], window_size=4
            ),
        ),
        "XGLMForCausalLM": ("XGLM", dict(WORDS, d_model=32, ffn_dim=64, num_layers=2, attention_heads=4)),
        "BioGptForCausalLM": ("BioGpt", GROUPED | dict(num_attention_heads=4)),
    }
    for name, (family, settings) in families.items():
        settings = {
            key: value for key, value in settings.items() if key != "num_key_value_heads"
        } if family in OWN_HEADS else settings
        for cached in (False, True):
            yield Program(f"{name}{', cache' * cached}", made(name, family, **settings), dict(BOTH, use_cache=cached))


OWN_HEADS = ("Falcon", "BioGpt")


def of_state_spaces() -> Iterator[Program]:
    """Models with a state in place of attention, and those that have both."""
    mamba2 = dict(
        WORDS,
        hidden_size=16,
        state_size=8,
        num_hidden_layers=2,
        num_heads=4,
        head_dim=8,
        expand=2,
        n_groups=1,
        chunk_size=4,
    )
    yield Program("Mamba2Model", made("Mamba2Model", "Mamba2", **mamba2), dict(input_ids=IDENTIFIERS, use_cache=False))
    falcon = dict(WORDS, hidden_size=16, state_size=4, num_hidden_layers=2)
    yield Program(
        "FalconMambaModel",
        made("FalconMambaModel", "FalconMamba", **falcon),
        dict(input_ids=IDENTIFIERS, use_cache=False),
    )
    rwkv = dict(WORDS, hidden_size=32, num_hidden_layers=2, context_length=64)
    yield Program("RwkvModel", made("RwkvModel", "Rwkv", **rwkv), dict(input_ids=IDENTIFIERS, use_cache=False))
    jamba = dict(
        GROUPED, attn_layer_period=2, attn_layer_offset=1, expert_layer_period=2, expert_layer_offset=1, num_experts=2
    )
    jamba |= dict(num_experts_per_tok=1, mamba_d_state=4, mamba_dt_rank=4, use_mamba_kernels=False)
    yield Program("JambaForCausalLM", made("JambaForCausalLM", "Jamba", **jamba), dict(BOTH, use_cache=False))
    bamba = dict(GROUPED, attn_layer_indices=[1], mamba_n_heads=4, mamba_d_head=16, mamba_d_state=8, mamba_chunk_size=4)
    yield Program("BambaForCausalLM", made("BambaForCausalLM", "Bamba", **bamba), dict(BOTH, use_cache=False))
    recurrent = dict(GROUPED, lru_width=32, attention_window_size=4, block_types=["recurrent", "attention"], head_dim=8)
    recurrent |= dict(num_key_value_heads=1)
    yield Program(
        "RecurrentGemmaForCausalLM",
        made("RecurrentGemmaForCausalLM", "RecurrentGemma", **recurrent),
        dict(input_ids=IDENTIFIERS, use_cache=False),
    )


def of_encoders() -> Iterator[Program]:
    """Encoders, and encoders with decoders."""
    modern = dict(
        TEXT, pad_token_id=0, bos_token_id=1, eos_token_id=2, cls_token_id=1, sep_token_id=2, local_attention=4
    )
    yield Program("ModernBertModel", made("ModernBertModel", "ModernBert", **modern), BOTH)
    for family in ("XLMRoberta", "RoFormer", "Ernie", "MobileBert", "SqueezeBert", "IBert", "Yoso", "LayoutLM"):
        settings = dict(TEXT, embedding_size=32, pad_token_id=1, max_position_embeddings=64)
        settings |= dict(true_hidden_size=32, intra_bottleneck_size=32) if family == "MobileBert" else {}
        yield Program(f"{family}Model", made(f"{family}Model", family, **settings), BOTH)
    yield Program("ConvBertModel", made("ConvBertModel", "ConvBert", **dict(TEXT, embedding_size=32)), BOTH)
    yield Program(
        "FNetModel", made("FNetModel", "FNet", **dict(TEXT, max_position_embeddings=64)), dict(input_ids=IDENTIFIERS)
    )
    yield Program("MPNetModel", made("MPNetModel", "MPNet", **TEXT), BOTH)
    yield Program(
        "DebertaModel",
        made("DebertaModel", "Deberta", **dict(TEXT, relative_attention=True, pos_att_type=["c2p", "p2c"])),
        BOTH,
    )
    yield Program(
        "XLNetModel", made("XLNetModel", "XLNet", vocab_size=96, d_model=32, n_layer=2, n_head=4, d_inner=64), BOTH
    )
    yield Program(
        "FlaubertModel", made("FlaubertModel", "Flaubert", vocab_size=96, emb_dim=32, n_layers=2, n_heads=4), BOTH
    )
    sparse = dict(TEXT, attention_type="block_sparse", block_size=2, num_random_blocks=1, max_position_embeddings=64)
    yield Program(
        "BigBirdModel, full attention",
        made("BigBirdModel", "BigBird", **dict(sparse, attention_type="original_full")),
        BOTH,
    )
    long = torch.arange(48).reshape(2, 24) * 7 % 90
    yield Program(
        "BigBirdModel, block sparse", made("BigBirdModel", "BigBird", **sparse), dict(input_ids=long), trains=False
    )
    funnel = dict(vocab_size=96, block_sizes=[1, 1], d_model=32, n_head=4, d_head=8, d_inner=64, num_decoder_layers=1)
    yield Program("FunnelModel", made("FunnelModel", "Funnel", **funnel), BOTH)
    canine = dict(
        TEXT, num_hash_buckets=64, local_transformer_stride=4, downsampling_rate=4, max_position_embeddings=64
    )
    yield Program("CanineModel", made("CanineModel", "Canine", **canine), BOTH)
    for family in ("Bart", "MBart", "Pegasus", "Blenderbot", "Marian", "M2M100", "PLBart"):
        settings = dict(PAIRED, max_position_embeddings=64)
        yield Program(
            f"{family}Model",
            made(f"{family}Model", family, **settings),
            dict(BOTH, decoder_input_ids=IDENTIFIERS, use_cache=False),
        )
    led = dict(PAIRED, attention_window=4, max_encoder_position_embeddings=64, max_decoder_position_embeddings=64)
    yield Program(
        "LEDModel", made("LEDModel", "LED", **led), dict(BOTH, decoder_input_ids=IDENTIFIERS, use_cache=False)
    )
    prophet = dict(
        WORDS, hidden_size=32, encoder_ffn_dim=32, decoder_ffn_dim=32, num_encoder_layers=1, num_decoder_layers=1
    )
    prophet |= dict(num_encoder_attention_heads=4, num_decoder_attention_heads=4, max_position_embeddings=64)
    yield Program(
        "ProphetNetModel",
        made("ProphetNetModel", "ProphetNet", **prophet),
        dict(BOTH, decoder_input_ids=IDENTIFIERS, use_cache=False),
    )
    t5 = dict(vocab_size=96, d_model=32, d_ff=64, d_kv=8, num_layers=2, num_heads=4)
    asked = dict(BOTH, decoder_input_ids=IDENTIFIERS, use_cache=False)
    for family in ("MT5", "UMT5"):
        yield Program(f"{family}Model", made(f"{family}Model", family, **t5), asked)
    long_t5 = dict(t5, local_radius=4, encoder_attention_type="transient-global", global_block_size=4)
    yield Program("LongT5Model", made("LongT5Model", "LongT5", **long_t5), asked)
    switch = dict(t5, num_sparse_encoder_layers=1, num_sparse_decoder_layers=1, num_experts=2, num_decoder_layers=2)
    yield Program("SwitchTransformersModel", made("SwitchTransformersModel", "SwitchTransformers", **switch), asked)


FAMILIES = (of_decoders, of_state_spaces, of_encoders)
