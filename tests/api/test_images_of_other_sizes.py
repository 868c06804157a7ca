"""Models of images, called with batches and heights that change: as few entries as torch.compile makes, with kernels, and in time."""

import dynascope
import pytest
import torch
import torch.nn.functional as F
from torch import nn


class Stem(nn.Module):
    """How many elements a channel has is a product of sizes, and passes any length of rows of which values are kept."""

    def __init__(self):
        super().__init__()
        self.first, self.norm, self.second = nn.Conv2d(3, 4, 3, 2, 1, bias=False), nn.BatchNorm2d(4), nn.Conv2d(4, 4, 3)

    def forward(self, image):
        return self.second(F.max_pool2d(self.norm(self.first(image)).relu(), 3, 2, 1))


class Tokens(nn.Module):
    """Tokens seen as an image and back: the image has its channels last."""

    def __init__(self):
        super().__init__()
        self.project, self.mix = nn.Conv2d(3, 8, 4, stride=4), nn.Conv2d(8, 8, 3, padding=1, groups=8)

    def forward(self, image):
        x = self.project(image)
        batch, channels, height, width = x.shape
        tokens = x.flatten(2).transpose(1, 2)
        return tokens + self.mix(tokens.transpose(1, 2).view(batch, channels, height, width)).flatten(2).transpose(1, 2)


class Pooled(nn.Module):
    """The second result follows from the first, which lies with its channels last: a part of its own."""

    def __init__(self):
        super().__init__()
        self.patches, self.norm, self.deep, self.last = (
            nn.Conv2d(3, 8, 4, stride=4),
            nn.LayerNorm(8),
            nn.Linear(8, 8),
            nn.LayerNorm(8),
        )
        self.down = nn.Conv2d(8, 8, 2, stride=2)

    def forward(self, image):
        x = self.norm(self.patches(image).permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        x = self.down(x)
        x = x + self.deep(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        return x, self.last(x.mean([-2, -1]))


class Patches(nn.Module):
    """A token for the class before the patches, and places resized to as many as there are."""

    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, 8, 8, stride=8)
        self.token, self.places = nn.Parameter(torch.rand(1, 1, 8)), nn.Parameter(torch.rand(1, 8, 4, 4))

    def forward(self, image):
        _, _, height, width = image.shape
        x = self.patches(image).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], dim=1)
        places = F.interpolate(self.places, size=(height // 8, width // 8), mode="bicubic", align_corners=False)
        places = torch.cat([torch.zeros(1, 1, 8), places.permute(0, 2, 3, 1).reshape(1, -1, 8)], dim=1)
        x = x + places
        return x.view(x.shape[0], x.shape[1], 2, 4).transpose(1, 2).softmax(-1)


class Windows(nn.Module):
    """Windows no larger than the image: the height decides, the batch does not."""

    def forward(self, image):
        batch, channels, height, width = image.shape
        window = min(height, 8) if min(height, width) // 4 <= 2 else 4
        x = image.view(batch, channels, height // window, window, width // window, window)
        return x.permute(0, 2, 4, 3, 5, 1).reshape(-1, window * window, channels).softmax(1)


def of_batches(*batches):
    return [(batch, 8) for batch in batches]


MODELS = [
    (Stem, [(2, 16), (2, 24), (2, 160), (3, 300)], 3, 1),
    (Tokens, of_batches(4, 2, 3, 5), 2, 1),
    (Pooled, [(4, 16), (4, 24), (4, 20), (2, 16), (3, 16)], 4, 2),
    (Patches, [(4, 9), (4, 10), (4, 12), (4, 16), (2, 12), (3, 12)], 4, 2),
    (Windows, of_batches(4, 2, 3, 5), 2, 1),
]


@pytest.mark.turns(6)
@pytest.mark.compiler
@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("make, sizes, usual, dynamics", MODELS, ids=[model[0].__name__ for model in MODELS])
def test_entries(make, sizes, usual, dynamics, dynamic, compilations):
    torch.manual_seed(0)
    model = make()
    compiled = dynascope.compile(model, dynamic=dynamic)
    for batch, height in sizes:
        width = {Windows: 8, Stem: height}.get(make, 16)
        image = torch.rand(batch, 3, height * (8 if make is Patches else 1), width, requires_grad=True)
        given, expected = image.detach().clone().requires_grad_(), model(image)
        results = compiled(given)
        both = list(zip(*(each if isinstance(each, tuple) else (each,) for each in (results, expected)), strict=True))
        for ours, theirs in both:
            torch.testing.assert_close(ours, theirs)
            assert ours.stride() == theirs.stride()
        (ours_gradient,) = torch.autograd.grad(sum(ours.pow(2).sum() for ours, _ in both), given)
        (their_gradient,) = torch.autograd.grad(sum(theirs.pow(2).sum() for _, theirs in both), image)
        torch.testing.assert_close(ours_gradient, their_gradient)
    assert len(compilations) <= (dynamics if dynamic else usual)


@pytest.mark.compiler
def test_what_lies_with_its_channels_last_is_read_by_kernels_of_the_next_part():
    """Capture took it to be in rows, because meta tensors know no library: then the part ran operator by operator, at each call."""
    torch.manual_seed(0)
    compiled, image = dynascope.compile(Pooled()), torch.rand(4, 3, 8, 16)
    compiled(image)
    with torch.profiler.profile() as profiled:
        compiled(image)
    assert not {"aten::layer_norm", "aten::native_layer_norm", "aten::mean"} & {
        event.key for event in profiled.key_averages()
    }


@pytest.mark.parametrize("dynamic", [None, True])
def test_a_factor_that_torch_takes_as_a_number_alone(dynamic):
    """Where it varies each value is a case of its own, with kernels: `interpolate` takes no symbol for it."""
    layer = nn.Sequential(nn.Upsample(scale_factor=2.0, mode="bilinear"), nn.ReLU())
    compiled = dynascope.compile(layer, dynamic=dynamic)
    for size in (4, 5, 8):
        for factor in (2.0, 1.5):
            layer[0].scale_factor = factor
            image = torch.randn(2, 3, size, size)
            torch.testing.assert_close(compiled(image), layer(image))


@pytest.mark.parametrize("size", [{"size": (1, 1)}, {"size": (1, 3)}, {"scale_factor": 0.5, "recompute_scale_factor": True}])
def test_corners_that_are_aligned_in_one_row(size):
    """Between the corners of one row lies nothing to divide by."""

    def program(image):
        return F.interpolate(image, mode="bilinear", align_corners=True, **size)

    compiled = dynascope.compile(program, dynamic=True)
    for height in (6, 2, 3, 5):
        image = torch.randn(2, 2, height, 7)
        torch.testing.assert_close(compiled(image), program(image))


RESIZED = {
    "twice": lambda x, mode: F.interpolate(x, scale_factor=2, mode=mode),
    "two factors": lambda x, mode: F.interpolate(x, scale_factor=(2.0, 4.0), mode=mode),
    "a broken factor": lambda x, mode: F.interpolate(x, scale_factor=2.5, mode=mode),
    "corners": lambda x, mode: F.interpolate(x, scale_factor=2, mode=mode, align_corners=True),
    "sizes": lambda x, mode: F.interpolate(x, size=(x.shape[2] * 2, x.shape[3] * 3), mode=mode),
    "a few more": lambda x, mode: F.interpolate(x, size=(x.shape[2] + 5, x.shape[3]), mode=mode),
}


@pytest.mark.parametrize("name", RESIZED)
def test_cubic_interpolation_and_its_gradient_of_images_of_any_size(name, compilations):
    """Kernels, where eager gives no copy at some of the sizes; of the gradient where results lie as far apart whatever the size."""
    function = lambda x: RESIZED[name](x, "bicubic")  # noqa: E731
    compiled = dynascope.compile(function, dynamic=True)
    for shape in ((2, 3, 5, 7), (1, 4, 8, 6), (3, 2, 2, 3), (2, 3, 16, 9)):
        x = torch.randn(shape, dtype=torch.float64, requires_grad=True)
        y = x.detach().clone().requires_grad_()
        expected, result = function(x), compiled(y)
        torch.testing.assert_close(result, expected)
        assert result.stride() == expected.stride()
        gradient = torch.randn_like(expected)
        expected.backward(gradient)
        result.backward(gradient)
        torch.testing.assert_close(y.grad, x.grad)
    kernels = [kernel.name for kernel in dynascope.explain(compiled)(y).report.kernels]
    assert sum("backward" not in name for name in kernels) == 2
    assert sum("backward" in name for name in kernels) == (4 if name in ("twice", "two factors", "sizes") else 0)
