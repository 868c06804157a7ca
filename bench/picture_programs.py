"""The programs of `models.py` from timm and diffusers beyond those of `model_programs` and `library_programs`: more architectures, sampling
loops with each scheduler, a training step."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from model_programs import PICTURE, Program
from torch import nn


def of_more_timm() -> Iterator[Program]:
    library = importlib.import_module("timm")
    for name in (
        "regnetx_002",
        "densenet121",
        "ghostnet_050",
        "edgenext_xx_small",
        "mobilevit_xxs",
        "repvgg_a0",
        "res2net50_14w_8s",
        "dla34",
        "poolformer_s12",
        "efficientformer_l1",
        "cait_xxs24_224",
        "swin_tiny_patch4_window7_224",
        "eva02_tiny_patch14_224",
        "resmlp_12_224",
        "xcit_nano_12_p16_224",
        "hrnet_w18_small",
        "fastvit_t8",
        "tinynet_e",
        "vgg11_bn",
        "inception_v3",
    ):
        settings: dict[str, Any] = dict(num_classes=10)
        settings |= dict(img_size=64, depth=2) if name in ("eva02_tiny_patch14_224", "xcit_nano_12_p16_224") else {}
        settings |= dict(img_size=64) if name in (
            "cait_xxs24_224", "swin_tiny_patch4_window7_224", "resmlp_12_224"
        ) else {}
        settings |= dict(depth=2) if name == "cait_xxs24_224" else {}
        settings |= dict(window_size=4) if name.startswith("swin") else {}
        picture = PICTURE
        if name == "eva02_tiny_patch14_224":
            settings |= dict(img_size=56)
            picture = PICTURE[..., :56, :56]
        elif name == "efficientformer_l1":
            picture = torch.nn.functional.interpolate(PICTURE, (224, 224))
        elif name == "inception_v3":
            picture = torch.nn.functional.interpolate(PICTURE, (128, 128))
        yield Program(
            f"timm {name}",
            functools.partial(library.create_model, name, **settings),
            dict(x=picture),
            trains=name not in ("inception_v3",),
        )


def of_more_diffusers() -> Iterator[Program]:
    library = importlib.import_module("diffusers")
    text, pooled = torch.linspace(-1, 1, 2 * 5 * 16).reshape(2, 5, 16), torch.linspace(-1, 1, 2 * 16).reshape(2, 16)
    small = torch.linspace(-1, 1, 2 * 4 * 8 * 8).reshape(2, 4, 8, 8)
    three = dict(
        sample_size=8,
        patch_size=2,
        in_channels=4,
        num_layers=2,
        attention_head_dim=8,
        num_attention_heads=2,
        joint_attention_dim=16,
        caption_projection_dim=16,
        pooled_projection_dim=16,
        out_channels=4,
    )
    yield Program(
        "diffusers SD3Transformer2DModel",
        functools.partial(library.SD3Transformer2DModel, **three),
        dict(hidden_states=small, encoder_hidden_states=text, pooled_projections=pooled, timestep=torch.tensor([3, 5])),
    )
    flux = dict(
        patch_size=1,
        in_channels=4,
        num_layers=1,
        num_single_layers=1,
        attention_head_dim=16,
        num_attention_heads=2,
        joint_attention_dim=16,
        pooled_projection_dim=16,
        axes_dims_rope=[4, 4, 8],
    )
    rows = torch.linspace(-1, 1, 2 * 16 * 4).reshape(2, 16, 4)
    yield Program(
        "diffusers FluxTransformer2DModel",
        functools.partial(library.FluxTransformer2DModel, **flux),
        dict(
            hidden_states=rows,
            encoder_hidden_states=text,
            pooled_projections=pooled,
            timestep=torch.tensor([0.3, 0.5]),
            img_ids=torch.zeros(16, 3),
            txt_ids=torch.zeros(5, 3),
        ),
    )
    dit = dict(
        num_attention_heads=2, attention_head_dim=8, in_channels=4, num_layers=2, sample_size=8, num_embeds_ada_norm=10
    )
    yield Program(
        "diffusers DiTTransformer2DModel",
        functools.partial(library.DiTTransformer2DModel, **dit),
        dict(hidden_states=small, timestep=torch.tensor([3, 5]), class_labels=torch.tensor([1, 2])),
    )
    conditioned = dict(
        sample_size=8,
        in_channels=4,
        out_channels=4,
        layers_per_block=1,
        block_out_channels=(16, 16),
        norm_num_groups=4,
        cross_attention_dim=16,
        attention_head_dim=8,
    )
    conditioned |= dict(
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"), up_block_types=("CrossAttnUpBlock2D", "UpBlock2D")
    )
    yield Program(
        "diffusers UNet2DConditionModel",
        functools.partial(library.UNet2DConditionModel, **conditioned),
        dict(sample=small, timestep=5, encoder_hidden_states=text),
    )
    yield Program(
        "diffusers ControlNetModel",
        functools.partial(
            library.ControlNetModel,
            **{k: v for k, v in conditioned.items() if k not in ("sample_size", "out_channels", "up_block_types")},
            conditioning_embedding_out_channels=(8, 8),
        ),
        dict(sample=small, timestep=5, encoder_hidden_states=text, controlnet_cond=torch.ones(2, 3, 16, 16)),
    )
    vq = dict(block_out_channels=(16,), norm_num_groups=4, num_vq_embeddings=8, vq_embed_dim=4, latent_channels=4)
    yield Program("diffusers VQModel", functools.partial(library.VQModel, **vq), dict(sample=PICTURE[:, :, :16, :16]))
    yield Program(
        "diffusers AutoencoderTiny",
        functools.partial(
            library.AutoencoderTiny,
            encoder_block_out_channels=(8, 8),
            decoder_block_out_channels=(8, 8),
            num_encoder_blocks=(1, 1),
            num_decoder_blocks=(1, 1),
        ),
        dict(sample=PICTURE[:, :, :16, :16]),
    )
    pixart = dict(
        num_attention_heads=2,
        attention_head_dim=8,
        in_channels=4,
        num_layers=1,
        sample_size=8,
        cross_attention_dim=16,
        caption_channels=16,
        use_additional_conditions=False,
    )
    yield Program(
        "diffusers PixArtTransformer2DModel",
        functools.partial(library.PixArtTransformer2DModel, **pixart),
        dict(
            hidden_states=small,
            timestep=torch.tensor([3, 5]),
            encoder_hidden_states=text,
            added_cond_kwargs=dict(resolution=None, aspect_ratio=None),
        ),
    )
    unet = functools.partial(
        library.UNet2DModel,
        sample_size=8,
        layers_per_block=1,
        block_out_channels=(8, 8),
        norm_num_groups=4,
        down_block_types=("DownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "UpBlock2D"),
        in_channels=4,
        out_channels=4,
    )

    def sampling(model: nn.Module, compile: Callable[..., Any], scheduler: str) -> Callable[..., Any]:
        steps = getattr(library, scheduler)(num_train_timesteps=20)

        @torch.no_grad()
        def sample(x: torch.Tensor) -> torch.Tensor:
            steps.set_timesteps(3)
            for at in steps.timesteps:
                x = steps.step(model(steps.scale_model_input(x, at), at).sample, at, x).prev_sample
            return x

        return compile(sample)

    for scheduler in (
        "DDPMScheduler",
        "EulerDiscreteScheduler",
        "DPMSolverMultistepScheduler",
        "LMSDiscreteScheduler",
        "UniPCMultistepScheduler",
    ):
        yield Program(
            f"diffusers sampling loop, {scheduler}",
            unet,
            dict(x=small),
            functools.partial(sampling, scheduler=scheduler),
            trains=False,
            backend="dynascope",
        )

    def noised(model: nn.Module, compile: Callable[..., Any]) -> Callable[..., Any]:
        steps = library.DDPMScheduler(num_train_timesteps=20)
        optimizer = torch.optim.AdamW(model.parameters(), 1e-3)

        def train(x: torch.Tensor) -> torch.Tensor:
            noise = torch.randn_like(x)
            at = torch.randint(0, steps.config.num_train_timesteps, (x.shape[0],))
            loss = torch.nn.functional.mse_loss(model(steps.add_noise(x, noise, at), at, return_dict=False)[0], noise)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            return loss.detach()

        return compile(train)

    yield Program("diffusers training step", unet, dict(x=small), noised)


FAMILIES = (of_more_timm, of_more_diffusers)
