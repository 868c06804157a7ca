"""The programs of `models.py` that see, hear and foresee: vision, audio, both with text, and series."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

import torch
from model_programs import GROUPED, IDENTIFIERS, MASK, PICTURE, TEXT, VISION, Program
from text_programs import made

SEEN = dict(pixel_values=PICTURE)
LAYERS = dict(hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4)
SOUND = torch.linspace(-1, 1, 2 * 800).reshape(2, 800).sin()
RESIDUAL = dict(
    embedding_size=8,
    hidden_sizes=[8, 16, 16, 32],
    depths=[1, 1, 1, 1],
    layer_type="basic",
    out_features=["stage2", "stage3", "stage4"],
)


def resnet() -> Any:
    return importlib.import_module("transformers").ResNetConfig(**RESIDUAL)


def of_vision() -> Iterator[Program]:
    for family in (
        "DeiT",
        "BeitModel",
        "Dinov2",
        "ViTMSN",
        "ViTMAE",
        "Yolos",
        "DPT",
        "Data2VecVision",
        "Dinov2WithRegisters",
        "DINOv3ViT",
    ):
        family = family.removesuffix("Model")
        settings = dict(VISION) | (dict(image_size=[64, 64]) if family == "Yolos" else {})
        yield Program(f"{family}Model", made(f"{family}Model", family, **settings), SEEN)
    library = importlib.import_module("transformers")
    swin = dict(image_size=64, patch_size=4, embed_dim=16, depths=[1, 1], num_heads=[2, 2], window_size=4)
    yield Program("Swinv2Model", made("Swinv2Model", "Swinv2", **swin), SEEN)
    yield Program("MaskFormerSwinModel", made("MaskFormerSwinModel", "MaskFormerSwin", **swin), SEEN)
    yield Program("DonutSwinModel", made("DonutSwinModel", "DonutSwin", **swin), SEEN)
    convolutions = dict(hidden_sizes=[8, 16, 16, 16], depths=[1, 1, 1, 1])
    yield Program("ConvNextV2Model", made("ConvNextV2Model", "ConvNextV2", **convolutions), SEEN)
    yield Program(
        "RegNetModel",
        made("RegNetModel", "RegNet", embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], groups_width=8),
        SEEN,
    )
    yield Program("MobileNetV2Model", made("MobileNetV2Model", "MobileNetV2", depth_multiplier=0.25), SEEN)
    mobile = dict(
        hidden_sizes=[8, 16, 16], neck_hidden_sizes=[8, 8, 8, 8, 8, 8, 16], num_attention_heads=2, image_size=64
    )
    yield Program("MobileViTModel", made("MobileViTModel", "MobileViT", **mobile), SEEN)
    pyramid = dict(
        depths=[1, 1],
        hidden_sizes=[8, 16],
        num_attention_heads=[1, 2],
        num_encoder_blocks=2,
        sequence_reduction_ratios=[2, 1],
    )
    pyramid |= dict(patch_sizes=[4, 2], strides=[4, 2], mlp_ratios=[2, 2], image_size=64)
    yield Program("PvtModel", made("PvtModel", "Pvt", **pyramid), SEEN)
    yield Program(
        "PoolFormerModel",
        made("PoolFormerModel", "PoolFormer", hidden_sizes=[8, 16, 16, 16], depths=[1, 1, 1, 1]),
        SEEN,
    )
    yield Program(
        "GLPNForDepthEstimation",
        made(
            "GLPNForDepthEstimation",
            "GLPN",
            hidden_sizes=[8, 16, 16, 16],
            depths=[1, 1, 1, 1],
            num_attention_heads=[1, 1, 2, 2],
            decoder_hidden_size=8,
        ),
        SEEN,
    )
    backbone = library.Dinov2Config(**VISION, out_features=["stage1", "stage2"], reshape_hidden_states=False)
    depth = dict(
        backbone_config=backbone,
        reassemble_hidden_size=32,
        patch_size=16,
        neck_hidden_sizes=[8, 8],
        fusion_hidden_size=8,
        reassemble_factors=[2, 1],
        head_hidden_size=8,
    )
    yield Program(
        "DepthAnythingForDepthEstimation", made("DepthAnythingForDepthEstimation", "DepthAnything", **depth), SEEN
    )


def of_detection() -> Iterator[Program]:
    library = importlib.import_module("transformers")
    paired = dict(d_model=32, encoder_layers=1, decoder_layers=1, encoder_attention_heads=4, decoder_attention_heads=4)
    paired |= dict(
        encoder_ffn_dim=32,
        decoder_ffn_dim=32,
        num_queries=5,
        use_timm_backbone=False,
        use_pretrained_backbone=False,
        backbone=None,
    )
    detr = dict(paired, backbone_config=library.ResNetConfig(**dict(RESIDUAL, out_features=["stage4"])))
    yield Program("DetrForObjectDetection", made("DetrForObjectDetection", "Detr", **detr), SEEN)
    labels = [
        dict(class_labels=torch.tensor([1, 2]), boxes=torch.tensor([[0.5, 0.5, 0.2, 0.2], [0.3, 0.3, 0.1, 0.2]]))
    ] * 2
    yield Program(
        "DetrForObjectDetection, loss", made("DetrForObjectDetection", "Detr", **detr), dict(SEEN, labels=labels)
    )
    yield Program("ConditionalDetrModel", made("ConditionalDetrModel", "ConditionalDetr", **detr), SEEN)
    deformable = dict(paired, backbone_config=library.ResNetConfig(**RESIDUAL), num_feature_levels=3)
    yield Program("DeformableDetrModel", made("DeformableDetrModel", "DeformableDetr", **deformable), SEEN)
    rt = dict(
        d_model=32,
        encoder_hidden_dim=32,
        encoder_in_channels=[16, 16, 32],
        decoder_in_channels=[32, 32, 32],
        encoder_ffn_dim=32,
        num_queries=5,
    )
    rt |= dict(
        decoder_layers=1,
        decoder_attention_heads=4,
        encoder_attention_heads=4,
        num_feature_levels=3,
        decoder_ffn_dim=32,
        num_denoising=0,
    )
    rt |= dict(backbone_config=library.RTDetrResNetConfig(**RESIDUAL), use_pretrained_backbone=False, backbone=None)
    yield Program("RTDetrModel", made("RTDetrModel", "RTDetr", **rt), SEEN, trains=False)
    swin = library.SwinConfig(
        image_size=64,
        patch_size=4,
        embed_dim=16,
        depths=[1, 1, 1, 1],
        num_heads=[2, 2, 2, 2],
        window_size=2,
        out_features=["stage1", "stage2", "stage3", "stage4"],
    )
    mask = dict(
        backbone_config=swin,
        feature_size=32,
        mask_feature_size=32,
        hidden_dim=32,
        encoder_feedforward_dim=32,
        dim_feedforward=32,
        encoder_layers=1,
        decoder_layers=2,
    )
    mask |= dict(num_attention_heads=4, num_queries=5, use_pretrained_backbone=False, backbone=None)
    yield Program("Mask2FormerModel", made("Mask2FormerModel", "Mask2Former", **mask), SEEN)
    dpt = dict(
        VISION,
        is_hybrid=False,
        neck_hidden_sizes=[8, 8, 8, 8],
        fusion_hidden_size=8,
        backbone_out_indices=[0, 1, 2, 3],
        num_hidden_layers=4,
        reassemble_factors=[4, 2, 1, 0.5],
    )
    yield Program("DPTForDepthEstimation", made("DPTForDepthEstimation", "DPT", **dpt), SEEN)


def of_audio() -> Iterator[Program]:
    heard = dict(
        LAYERS,
        conv_dim=[8, 8],
        conv_kernel=[10, 3],
        conv_stride=[5, 2],
        num_conv_pos_embeddings=8,
        num_conv_pos_embedding_groups=4,
        num_feat_extract_layers=2,
        vocab_size=16,
    )
    for family in ("Wav2Vec2", "Hubert", "WavLM", "UniSpeech", "Data2VecAudio", "Wav2Vec2Conformer"):
        more = dict(apply_spec_augment=False)
        yield Program(f"{family}Model", made(f"{family}Model", family, **heard, **more), dict(input_values=SOUND))
    labels = torch.tensor([[1, 2, 3], [2, 3, 1]])
    yield Program(
        "Wav2Vec2ForCTC",
        made("Wav2Vec2ForCTC", "Wav2Vec2", **heard, apply_spec_augment=False, ctc_loss_reduction="mean"),
        dict(input_values=SOUND, labels=labels),
    )
    yield Program(
        "SEWModel",
        made("SEWModel", "SEW", **dict(heard, squeeze_factor=2, apply_spec_augment=False)),
        dict(input_values=SOUND),
    )
    yield Program(
        "SEWDModel",
        made("SEWDModel", "SEWD", **dict(heard, squeeze_factor=2, apply_spec_augment=False)),
        dict(input_values=SOUND),
    )
    encodec = dict(
        num_filters=4,
        hidden_size=8,
        codebook_size=16,
        codebook_dim=8,
        upsampling_ratios=[4, 2],
        num_lstm_layers=1,
        sampling_rate=8000,
        target_bandwidths=[8.0],
    )
    yield Program(
        "EncodecModel", made("EncodecModel", "Encodec", **encodec), dict(input_values=SOUND[:, None]), trains=False
    )
    dac = dict(
        encoder_hidden_size=4,
        downsampling_ratios=[2, 4],
        decoder_hidden_size=16,
        upsampling_ratios=[4, 2],
        n_codebooks=2,
        codebook_size=16,
        codebook_dim=4,
    )
    yield Program("DacModel", made("DacModel", "Dac", **dac), dict(input_values=SOUND[:, None]))
    mimi = dict(
        num_filters=4,
        hidden_size=32,
        codebook_size=16,
        codebook_dim=16,
        upsampling_ratios=[4, 2],
        vector_quantization_hidden_dimension=16,
        upsample_groups=32,
    )
    mimi |= dict(
        num_hidden_layers=1,
        num_attention_heads=4,
        num_key_value_heads=4,
        head_dim=8,
        intermediate_size=32,
        num_quantizers=4,
        sampling_rate=800,
        frame_rate=50,
    )
    yield Program("MimiModel", made("MimiModel", "Mimi", **mimi), dict(input_values=SOUND[:, None]), trains=False)
    spoken = dict(
        LAYERS,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=32,
        decoder_ffn_dim=32,
        vocab_size=96,
        num_mel_bins=8,
    )
    spoken |= dict(
        speech_decoder_prenet_units=16,
        speech_decoder_postnet_units=16,
        speech_decoder_postnet_layers=2,
        speaker_embedding_dim=8,
        speech_decoder_prenet_layers=1,
    )
    mel = torch.linspace(-1, 1, 2 * 8 * 8).reshape(2, 8, 8)
    asked = dict(input_ids=IDENTIFIERS, decoder_input_values=mel, speaker_embeddings=torch.ones(2, 8), use_cache=False)
    yield Program("SpeechT5ForTextToSpeech", made("SpeechT5ForTextToSpeech", "SpeechT5", **spoken), asked)
    vits = dict(
        vocab_size=96,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        ffn_dim=16,
        flow_size=16,
        spectrogram_bins=9,
        prior_encoder_num_flows=2,
    )
    vits |= dict(
        upsample_initial_channel=16,
        upsample_rates=[4, 2],
        upsample_kernel_sizes=[8, 4],
        resblock_kernel_sizes=[3],
        resblock_dilation_sizes=[[1, 3]],
        posterior_encoder_num_wavenet_layers=1,
        prior_encoder_num_wavenet_layers=1,
        duration_predictor_num_flows=2,
        depth_separable_num_layers=1,
    )
    yield Program(
        "VitsModel", made("VitsModel", "Vits", **vits), dict(input_ids=IDENTIFIERS), trains=False, backend="dynascope"
    )
    ast = dict(LAYERS, patch_size=8, frequency_stride=8, time_stride=8, max_length=32, num_mel_bins=16)
    yield Program(
        "ASTModel",
        made("ASTModel", "AST", **ast),
        dict(input_values=torch.linspace(-1, 1, 2 * 32 * 16).reshape(2, 32, 16)),
    )
    musicgen = dict(GROUPED, num_codebooks=2, ffn_dim=32)
    yield Program(
        "MusicgenForCausalLM",
        made("MusicgenForCausalLM", "MusicgenDecoder", **musicgen),
        dict(input_ids=torch.arange(4 * 6).reshape(4, 6), use_cache=False),
    )


def of_several_senses() -> Iterator[Program]:
    library = importlib.import_module("transformers")
    text = dict(TEXT, max_position_embeddings=64, bos_token_id=1, eos_token_id=2)
    both = dict(input_ids=IDENTIFIERS, pixel_values=PICTURE)
    yield Program("SiglipModel", made("SiglipModel", "Siglip", text_config=text, vision_config=VISION), both)
    yield Program(
        "CLIPModel, loss",
        made("CLIPModel", "CLIP", text_config=text, vision_config=VISION, projection_dim=16),
        dict(both, return_loss=True),
    )
    yield Program(
        "AltCLIPModel",
        made(
            "AltCLIPModel", "AltCLIP", text_config=dict(text, project_dim=16), vision_config=VISION, projection_dim=16
        ),
        dict(both, attention_mask=MASK),
    )
    yield Program(
        "BlipForConditionalGeneration",
        made(
            "BlipForConditionalGeneration",
            "Blip",
            text_config=dict(text, encoder_hidden_size=32),
            vision_config=VISION,
            projection_dim=16,
        ),
        both,
    )
    yield Program(
        "GitModel", made("GitModel", "Git", **dict(TEXT, max_position_embeddings=64), vision_config=VISION), both
    )
    identifiers = IDENTIFIERS.clone()
    identifiers[:, :16] = 7
    seen = torch.cat([torch.full((2, 16), 95), IDENTIFIERS], 1)
    language = library.LlamaConfig(**GROUPED)
    llava = dict(
        text_config=language,
        vision_config=library.CLIPVisionConfig(**VISION),
        image_token_index=95,
        image_token_id=95,
        vision_feature_layer=-1,
    )
    shown = dict(input_ids=seen, pixel_values=PICTURE, use_cache=False)
    yield Program("LlavaForConditionalGeneration", made("LlavaForConditionalGeneration", "Llava", **llava), shown)
    gemma = library.GemmaConfig(**GROUPED, head_dim=8)
    paligemma = dict(
        text_config=gemma,
        vision_config=library.SiglipVisionConfig(**VISION, projection_dim=32),
        image_token_index=95,
        image_token_id=95,
        projection_dim=32,
        hidden_size=32,
    )
    yield Program(
        "PaliGemmaForConditionalGeneration",
        made("PaliGemmaForConditionalGeneration", "PaliGemma", **paligemma),
        dict(shown, attention_mask=torch.ones_like(seen)),
    )
    idefics = dict(text_config=language, vision_config=VISION, scale_factor=2, image_token_id=95, pad_token_id=0)
    yield Program(
        "Idefics3Model",
        made("Idefics3Model", "Idefics3", **idefics),
        dict(
            input_ids=torch.cat([torch.full((2, 4), 95), IDENTIFIERS], 1),
            pixel_values=PICTURE[:, None],
            use_cache=False,
        ),
    )
    rope = dict(rope_type="default", mrope_section=[1, 1, 2], type="default", rope_theta=1e4)
    qwen = dict(
        text_config=dict(GROUPED, rope_parameters=rope),
        vision_config=dict(
            depth=2,
            embed_dim=32,
            hidden_size=32,
            num_heads=4,
            patch_size=14,
            mlp_ratio=2,
            spatial_merge_size=2,
            temporal_patch_size=2,
            in_channels=3,
        ),
    )
    qwen |= dict(image_token_id=95, video_token_id=94, vision_start_token_id=93, vision_end_token_id=92)
    pieces = torch.linspace(-1, 1, 16 * 3 * 2 * 14 * 14).reshape(16, -1)
    yield Program(
        "Qwen2VLForConditionalGeneration, text",
        made("Qwen2VLForConditionalGeneration", "Qwen2VL", **qwen),
        dict(input_ids=IDENTIFIERS, use_cache=False),
    )
    row = torch.cat([torch.tensor([[93]]), torch.full((1, 4), 95), torch.tensor([[92]]), IDENTIFIERS[:1]], 1)
    kinds = (row == 95).int()
    yield Program(
        "Qwen2VLForConditionalGeneration",
        made("Qwen2VLForConditionalGeneration", "Qwen2VL", **qwen),
        dict(
            input_ids=row,
            pixel_values=pieces,
            image_grid_thw=torch.tensor([[1, 4, 4]]),
            mm_token_type_ids=kinds,
            attention_mask=torch.ones_like(row),
            use_cache=False,
        ),
        trains=False,
    )
    perceiver = dict(
        num_latents=4,
        d_latents=16,
        d_model=16,
        num_blocks=1,
        num_self_attends_per_block=1,
        num_self_attention_heads=2,
        num_cross_attention_heads=2,
    )
    yield Program(
        "PerceiverModel",
        made("PerceiverModel", "Perceiver", **perceiver),
        dict(inputs=torch.linspace(-1, 1, 2 * 6 * 16).reshape(2, 6, 16)),
    )
    yield Program(
        "ViltModel",
        made("ViltModel", "Vilt", **dict(TEXT, image_size=64, patch_size=16, max_position_embeddings=64)),
        dict(both, attention_mask=MASK),
        trains=False,
    )
    lxmert = dict(
        vocab_size=96,
        hidden_size=32,
        num_attention_heads=4,
        intermediate_size=32,
        l_layers=1,
        x_layers=1,
        r_layers=1,
        visual_feat_dim=8,
    )
    yield Program(
        "LxmertModel",
        made("LxmertModel", "Lxmert", **lxmert),
        dict(
            input_ids=IDENTIFIERS, attention_mask=MASK, visual_feats=torch.ones(2, 3, 8), visual_pos=torch.ones(2, 3, 4)
        ),
    )


def of_series() -> Iterator[Program]:
    past, future = torch.linspace(-1, 1, 2 * 16).reshape(2, 16).sin(), torch.linspace(1, 2, 2 * 4).reshape(2, 4)
    timed = dict(
        prediction_length=4,
        context_length=9,
        lags_sequence=[1, 2, 7],
        d_model=16,
        encoder_layers=1,
        decoder_layers=1,
        encoder_ffn_dim=16,
        decoder_ffn_dim=16,
        num_time_features=1,
    )
    timed |= dict(encoder_attention_heads=2, decoder_attention_heads=2)
    asked = dict(
        past_values=past,
        past_time_features=past[..., None],
        past_observed_mask=torch.ones_like(past),
        future_values=future,
        future_time_features=future[..., None],
        use_cache=False,
    )
    for family in ("TimeSeriesTransformer", "Informer", "Autoformer"):
        more = dict(timed) | (
            dict(label_length=4, moving_average=3, autocorrelation_factor=1) if family == "Autoformer" else {}
        )
        yield Program(f"{family}ForPrediction", made(f"{family}ForPrediction", family, **more), asked)
    rows = torch.linspace(-1, 1, 2 * 32 * 3).reshape(2, 32, 3).sin()
    patched = dict(
        num_input_channels=3,
        context_length=32,
        patch_length=8,
        patch_stride=8,
        d_model=16,
        num_attention_heads=2,
        num_hidden_layers=1,
        ffn_dim=16,
        prediction_length=4,
    )
    yield Program(
        "PatchTSTForPrediction",
        made("PatchTSTForPrediction", "PatchTST", **patched),
        dict(past_values=rows, future_values=rows[:, :4]),
    )
    yield Program(
        "PatchTSTForPretraining",
        made("PatchTSTForPretraining", "PatchTST", **patched, do_mask_input=True),
        dict(past_values=rows),
    )
    yield Program(
        "PatchTSMixerForPrediction",
        made("PatchTSMixerForPrediction", "PatchTSMixer", **patched),
        dict(past_values=rows, future_values=rows[:, :4]),
    )
    decision = dict(state_dim=4, act_dim=2, hidden_size=32, max_ep_len=32, n_layer=1, n_head=2, vocab_size=1)
    told = dict(
        states=rows[:, :6, :1].expand(2, 6, 4).contiguous(),
        actions=rows[:, :6, :2].contiguous(),
        rewards=rows[:, :6, :1].contiguous(),
        returns_to_go=rows[:, :6, :1].contiguous(),
        timesteps=torch.arange(6).expand(2, 6).contiguous(),
        attention_mask=torch.ones(2, 6),
    )
    yield Program("DecisionTransformerModel", made("DecisionTransformerModel", "DecisionTransformer", **decision), told)


FAMILIES = (of_vision, of_detection, of_audio, of_several_senses, of_series)
