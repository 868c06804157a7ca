"""Quantized, sparse, nested and MKL-DNN tensors: their operators run uncompiled, what is around them is compiled."""

import dynascope
import pytest
import torch

X = torch.rand(4, 4, generator=torch.Generator().manual_seed(0))
PROGRAMS = {
    "quantize": lambda t: torch.quantize_per_tensor(t * 2, 0.1, 10, torch.quint8).dequantize() + 1,
    "quantize by keyword": lambda t: torch.quantize_per_tensor(
        t, scale=0.1, zero_point=1, dtype=torch.qint8
    ).dequantize(),
    "quantize by channel": lambda t: (
        torch.quantize_per_channel(t, t[0] + 1, t[0] * 0, 0, torch.qint8).dequantize().sin()
    ),
    "fake quantize": lambda t: torch.fake_quantize_per_tensor_affine(t, 0.1, 0, 0, 255) + 1,
    "sparse": lambda t: (t * 2).to_sparse().to_dense() + 1,
    "sparse matrix": lambda t: ((t * 2).to_sparse_csr() @ t) + 1,
    "sparse, made inside": lambda t: torch.sparse_coo_tensor(torch.tensor([[0, 1], [1, 0]]), t[0, :2], (4, 4)) @ t,
    "sparse zeros": lambda t: torch.zeros_like(t, layout=torch.sparse_coo).to_dense() + t,
    "nested": lambda t: torch.nested.nested_tensor([t, t[:2]]).to_padded_tensor(0.0) + 1,
    "mkldnn": lambda t: (t * 2).to_mkldnn().to_dense() + 1,
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", PROGRAMS)
def test_made_inside(name):
    program = PROGRAMS[name]
    compiled = dynascope.compile(program, backend="eager")
    for _ in range(2):
        torch.testing.assert_close(compiled(X), program(X))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "make",
    [
        torch.Tensor.to_sparse,
        torch.Tensor.to_sparse_csr,
        torch.Tensor.to_mkldnn,
        lambda t: torch.quantize_per_tensor(t, 0.1, 10, torch.quint8),
        lambda t: torch.nested.nested_tensor([t, t[:2]]),
    ],
)
def test_from_outside(make):
    unusual = make(X)
    result, same = dynascope.compile(lambda u, t: (t + 1, u), backend="eager")(unusual, X)
    assert torch.equal(result, X + 1) and same is unusual


def test_operators_that_follow_offsets_are_not_tried_out():
    """`embedding_bag` reads where its offsets say, without looking."""
    words, offsets = torch.tensor([0, 1, 2, 3, 4, 0]), torch.tensor([0, 3, 6])

    def bags(weight):
        return torch.nn.functional.embedding_bag(words, weight, offsets, mode="max", include_last_offset=True)

    weight = torch.rand(5, 5)
    torch.testing.assert_close(dynascope.compile(bags, backend="eager")(weight), bags(weight))


def test_operators_of_the_program_are_not_tried_out():
    runs = []

    @torch.library.custom_op("dynascope_test_unusual::counted", mutates_args=())
    def counted(x: torch.Tensor, flag: bool) -> torch.Tensor:
        runs.append(tuple(x.shape))
        return x * 2

    counted.register_fake(lambda x, flag: torch.empty_like(x))
    compiled = dynascope.compile(lambda x: counted(x, True) + 1, backend="eager")
    compiled(torch.arange(6).reshape(2, 3))
    assert runs == [(2, 3)]


def test_meta_tensors_of_the_program():
    real, meta = torch.ones(3), torch.ones(3, device="meta")
    result, twice = dynascope.compile(lambda x, m: (x + 1, m * 2))(real, meta)
    assert result.tolist() == [2, 2, 2] and twice.device.type == "meta" and twice.shape == (3,)
    for program in (lambda x, m: x + m, lambda x, m: torch.where(x > 0, m, x), lambda x, m: torch.cat([x, m])):
        with pytest.raises(Exception) as theirs:  # noqa: PT011
            program(real, meta)
        with pytest.raises(type(theirs.value)) as ours:
            dynascope.compile(program)(real, meta)
        assert str(ours.value) == str(theirs.value)


CONVERSIONS = {
    "float": lambda x: x.float(),
    "to": lambda x: x.to(torch.float32),
    "type_as": lambda x: x.type_as(x),
    "contiguous": lambda x: x.contiguous(),
    "dropout": lambda x: torch.nn.functional.dropout(x, 0.5, False),
    "resolve_conj": lambda x: x.resolve_conj(),
    "double": lambda x: x.double(),
}


@pytest.mark.parametrize("name", CONVERSIONS)
def test_a_conversion_to_what_it_is_gives_the_same_tensor(name):
    """Of what was computed inside too."""

    def f(x):
        y, z = x + 1, x[1:]
        return CONVERSIONS[name](y) is y, CONVERSIONS[name](z) is z, CONVERSIONS[name](x) is x, y * 2

    x = torch.ones(3)
    assert dynascope.compile(f, backend="eager")(x)[:3] == f(x)[:3]


@pytest.mark.expects("foreign-call", "tensor-subclass")
def test_integers_that_are_filled_from_what_requires_grad():
    """Autograd gives them a history, and refuses what reads them."""

    def filled(x, number):
        x[:, 0] = number
        return x

    def read(x, number):
        x[:, 0] = number
        return x[0] + 1

    def play(function):
        return function(torch.ones(2, 1, dtype=torch.int64).expand(2, 1), torch.ones((), requires_grad=True))

    assert play(dynascope.compile(filled)).requires_grad is play(filled).requires_grad
    for function in (read, dynascope.compile(read)):
        with pytest.raises(RuntimeError, match="Autograd not support dtype: Long"):
            play(function)


META = torch.ones(3, 4, device="meta")
BY_META = {
    "handed on": lambda x: (x * 2, META),
    "told apart": lambda x: (x, META is None, isinstance(META, torch.Tensor), {"a": META}.get("a") is META),
    "a key": lambda x: (x, {META: 1}[META], META in {META}),
    "its size": lambda x: x * META.shape[0],
    "its device": lambda x: (x, META.device, META.requires_grad),
    "an operand": lambda x: (META + 1).shape,
    "a method": lambda x: (x, META.sum().shape, len(META)),
    "in a list": lambda x: torch.cat([META, META]).shape,
    "of another device": lambda x: torch.empty_like(META, device="cpu").shape,
    "refused": lambda x: x + META,
}


@pytest.mark.parametrize("name", BY_META)
def test_a_meta_tensor_is_eagers(name):
    def outcome(function):
        try:
            found = function(torch.ones(5))
        except Exception as error:
            return type(error)
        parts = found if type(found) is tuple else (found,)
        return [(each.shape, each.device, each is META) if isinstance(each, torch.Tensor) else each for each in parts]

    compiled = dynascope.compile(BY_META[name])
    with dynascope.expected(*ANY, required=False):
        for _ in range(2):
            assert outcome(compiled) == outcome(BY_META[name])


ANY = ("tensor-subclass", "foreign-value", "foreign-call", "unsupported-attribute", "program-raises", "data-dependent-value")
