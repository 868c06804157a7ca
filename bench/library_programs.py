"""The programs of `models.py` that take a library of their own: diffusion, graphs, quantizers, adapters, detectors."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from model_programs import GPT2, IDENTIFIERS, PICTURE, ROWS, Program, stepping
from torch import nn
from torch.nn import functional as F


def of_diffusers() -> Iterator[Program]:
    library = importlib.import_module("diffusers")
    small = PICTURE[:, :, :16, :16]
    blocks = dict(sample_size=16, layers_per_block=1, block_out_channels=(32, 32), norm_num_groups=8)
    blocks |= dict(down_block_types=("DownBlock2D", "AttnDownBlock2D"), up_block_types=("AttnUpBlock2D", "UpBlock2D"))
    unet = functools.partial(library.UNet2DModel, **blocks)
    yield Program("diffusers UNet2DModel", unet, dict(sample=small, timestep=5))
    coder = functools.partial(library.AutoencoderKL, block_out_channels=(32,), norm_num_groups=8, latent_channels=4)
    yield Program("diffusers AutoencoderKL", coder, dict(sample=small))

    def sampling(model: nn.Module, compile: Callable[..., Any], loop: bool) -> Callable[..., Any]:
        scheduler = library.DDIMScheduler(num_train_timesteps=20)
        called = model if loop else compile(model)

        @torch.no_grad()
        def sample(x: torch.Tensor) -> torch.Tensor:
            scheduler.set_timesteps(4)
            for at in scheduler.timesteps:
                x = scheduler.step(called(x, at).sample, at, x).prev_sample
            return x

        return compile(sample) if loop else sample

    for loop in (False, True):
        name = f"diffusers sampling, {'loop' if loop else 'model'} compiled"
        yield Program(name, unet, dict(x=small), functools.partial(sampling, loop=loop), trains=False, backend="dynascope")


def of_geometric() -> Iterator[Program]:
    library = importlib.import_module("torch_geometric.nn")
    edges = torch.tensor([[0, 1, 2, 3, 4, 5, 0, 2], [1, 2, 3, 4, 5, 0, 3, 5]])
    graph = dict(x=ROWS[0], edge_index=edges)
    for name in ("GCN", "GAT", "GraphSAGE"):
        yield Program(f"torch-geometric {name}", functools.partial(getattr(library, name), 16, 8, 2, 3), graph, backend="dynascope")
    pooled = lambda: Pooled(library)  # noqa: E731
    yield Program("torch-geometric GCN, pooled", pooled, dict(graph, batch=torch.tensor([0, 0, 0, 1, 1, 1])), backend="dynascope")


class Pooled(nn.Module):
    def __init__(self, library: Any) -> None:
        super().__init__()
        self.layers, self.out = nn.ModuleList([library.GCNConv(16, 8), library.GCNConv(8, 8)]), nn.Linear(8, 3)
        self.pool = library.global_mean_pool

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor, batch: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = F.dropout(layer(x, edge_index).relu(), 0.2, self.training)
        return self.out(self.pool(x, batch)).log_softmax(-1)


def of_x_transformers() -> Iterator[Program]:
    library = importlib.import_module("x_transformers")

    def made(layers: Callable[..., nn.Module], **settings: Any) -> Callable[[], nn.Module]:
        make = functools.partial(layers, dim=32, depth=2, heads=4, **settings)
        return lambda: library.TransformerWrapper(num_tokens=96, max_seq_len=32, attn_layers=make())

    yield Program("x-transformers Decoder, rotary", made(library.Decoder, rotary_pos_emb=True), dict(x=IDENTIFIERS))
    yield Program("x-transformers Encoder, flash", made(library.Encoder, attn_flash=True), dict(x=IDENTIFIERS))
    autoregressive = lambda: library.AutoregressiveWrapper(made(library.Decoder, rotary_pos_emb=True)())  # noqa: E731
    yield Program("x-transformers AutoregressiveWrapper", autoregressive, dict(x=IDENTIFIERS))


def of_vector_quantize() -> Iterator[Program]:
    library = importlib.import_module("vector_quantize_pytorch")
    quantizer = functools.partial(library.VectorQuantize, dim=16, codebook_size=8, decay=0.8)
    yield Program("VectorQuantize", quantizer, dict(x=ROWS))
    yield Program("VectorQuantize, evaluating", quantizer, dict(x=ROWS), trains=False)
    yield Program("FSQ", functools.partial(library.FSQ, levels=[4, 4, 3], dim=16), dict(z=ROWS))


def of_e3nn() -> Iterator[Program]:
    o3 = importlib.import_module("e3nn.o3")
    features = o3.Irreps("2x0e+1x1o")

    class Equivariant(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.product = o3.FullyConnectedTensorProduct(features, "1x0e+1x1o", features)
            self.mixed = o3.Linear(features, features)

        def forward(self, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
            directions = o3.spherical_harmonics([0, 1], at, normalize=True)
            return self.mixed(self.product(x, directions))

    yield Program("e3nn", Equivariant, dict(x=ROWS[0, :, :5], at=ROWS[1, :, :3]))


def of_peft() -> Iterator[Program]:
    library, models = importlib.import_module("peft"), importlib.import_module("transformers")
    adapted = library.LoraConfig(r=4, target_modules=["c_attn"], fan_in_fan_out=True, task_type="CAUSAL_LM")

    def make() -> nn.Module:
        return library.get_peft_model(models.GPT2LMHeadModel(models.GPT2Config(**GPT2)), adapted)

    yield Program("peft LoRA of GPT-2", make, dict(input_ids=IDENTIFIERS, labels=IDENTIFIERS, use_cache=False))


def of_accelerate() -> Iterator[Program]:
    library = importlib.import_module("accelerate")

    def prepare(model: nn.Module, compile: Callable[..., Any], precision: str, step: bool) -> Callable[..., Any]:
        library.state.AcceleratorState._reset_state(True)
        accelerator = library.Accelerator(cpu=True, mixed_precision=precision)
        optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
        called, optimizer = accelerator.prepare(model if step else compile(model), optimizer)

        def train(x: torch.Tensor) -> torch.Tensor:
            loss = called(x).square().mean()
            accelerator.backward(loss)
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            return loss.detach()

        return compile(train) if step else train

    make = lambda: nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.LayerNorm(16), nn.Linear(16, 2))  # noqa: E731
    for precision in ("no", "bf16"):
        for step in (False, True):
            name = f"accelerate, {'fp32' if precision == 'no' else precision}, {'step' if step else 'model'} compiled"
            yield Program(name, make, dict(x=ROWS), functools.partial(prepare, precision=precision, step=step))


def of_torchvision() -> Iterator[Program]:
    detection = importlib.import_module("torchvision.models.detection")
    small = dict(weights=None, weights_backbone=None, num_classes=3, min_size=64, max_size=96)
    make = functools.partial(detection.fasterrcnn_mobilenet_v3_large_320_fpn, **small)
    pictures = [PICTURE[0] / 2 + 0.5, PICTURE[1, :, :48] / 2 + 0.5]
    boxes = [dict(boxes=torch.tensor([[4.0, 4.0, 30.0, 40.0]]), labels=torch.tensor([1])) for _ in pictures]

    def without_gradients(model: nn.Module, compile: Callable[..., Any]) -> Callable[..., Any]:
        return torch.no_grad()(compile(model))

    yield Program("FasterRCNN, evaluating", make, dict(images=pictures), without_gradients, trains=False)
    yield Program("FasterRCNN, training", make, dict(images=pictures, targets=boxes))


class Recommender(nn.Module):
    """DLRM: embeddings of categories, their products with each other, a perceptron above."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 8), nn.ReLU())
        self.tables = nn.ModuleList(nn.EmbeddingBag(10, 8, mode="sum") for _ in range(3))
        self.top = nn.Sequential(nn.Linear(8 + 6, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, numbers: torch.Tensor, places: list[torch.Tensor], starts: torch.Tensor) -> torch.Tensor:
        dense = self.dense(numbers)
        found = [table(each, starts) for table, each in zip(self.tables, places, strict=True)]
        rows = torch.stack([dense, *found], 1)
        products = torch.bmm(rows, rows.transpose(1, 2))
        one, other = torch.tril_indices(4, 4, -1)
        return self.top(torch.cat([dense, products[:, one, other]], 1)).sigmoid()


class Lightning(nn.Module):
    """The parts of a LightningModule, without its library: `training_step`, `log`, `configure_optimizers`."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(16, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.1), nn.Linear(8, 4))
        self.logged: dict[str, torch.Tensor] = {}
        self.losses: list[torch.Tensor] = []

    def log(self, name: str, value: torch.Tensor) -> None:
        self.logged[name] = value.detach()

    def training_step(self, batch: tuple[torch.Tensor, torch.Tensor], at: int) -> torch.Tensor:
        x, y = batch
        outputs = self.layers(x)
        loss = F.cross_entropy(outputs, y)
        self.log("train_loss", loss)
        self.log("train_accuracy", (outputs.argmax(-1) == y).float().mean())
        self.losses.append(loss.detach())
        return loss

    def configure_optimizers(self) -> tuple[torch.optim.Optimizer, Any]:
        optimizer = torch.optim.AdamW(self.parameters(), 1e-2)
        return optimizer, torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=10)


def lightning_step(model: Lightning) -> Callable[..., Any]:
    optimizer, scheduler = model.configure_optimizers()
    count = 0

    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        nonlocal count
        optimizer.zero_grad()
        loss = model.training_step((x, y), count)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        scheduler.step()
        count += 1
        return loss.detach()

    return step


def of_own() -> Iterator[Program]:
    starts, places = torch.tensor([0, 2, 3, 5]), [torch.arange(8) * step % 10 for step in (1, 3, 7)]
    yield Program("DLRM", Recommender, dict(numbers=ROWS[0, :4, :4], places=places, starts=starts))
    batch = dict(x=ROWS[0], y=torch.arange(6) % 4)
    yield Program("Lightning-style step", Lightning, batch, stepping(lightning_step))


FAMILIES = (
    of_own,
    of_diffusers,
    of_geometric,
    of_x_transformers,
    of_vector_quantize,
    of_e3nn,
    of_peft,
    of_accelerate,
    of_torchvision,
)
