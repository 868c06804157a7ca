"""What programs ask of memory inside: strides, contiguity, offsets, versions. Where meta kernels do not know, the real tensor does."""

from __future__ import annotations

import dynascope
import pytest
import torch
from torch.nn import functional as F

MATRIX, CUBE, IMAGE = torch.arange(24.0).view(4, 6), torch.arange(120.0).view(4, 6, 5), torch.rand(2, 4, 6, 6)
UNKNOWN = {
    "batch norm": lambda: F.batch_norm(MATRIX.t(), None, None, training=True),
    "batch norm of rows": lambda: F.batch_norm(CUBE.permute(2, 1, 0), None, None, training=True),
    "and what follows": lambda: (F.batch_norm(MATRIX.t(), None, None, training=True) * 2).relu(),
    "and its views": lambda: F.batch_norm(CUBE.mT, None, None, training=True)[1:].mT,
    "copysign": lambda: torch.copysign(CUBE.mT, CUBE.mT.contiguous()),
    "of other types": lambda: torch.copysign(MATRIX.t(), torch.ones(6, 4, dtype=torch.int64)),
    "promoted": lambda: torch.add(MATRIX[:1].expand(4, 6).bfloat16() * 1, MATRIX[:1].expand(4, 6)),
    "ldexp": lambda: torch.ldexp(CUBE.mT, torch.ones(4, 5, 6)),
    "logical": lambda: torch.logical_and(CUBE.mT, torch.ones(4, 5, 6)),
    "rounded quotient": lambda: torch.div(torch.ones(6), MATRIX.t()[:, :1].expand(6, 6), rounding_mode="floor"),
    "log sigmoid": lambda: F.logsigmoid(MATRIX.t()),
    "convolution": lambda: F.conv_transpose1d(CUBE.mT, torch.rand(5, 3, 2)),
    "pad": lambda: F.pad(IMAGE.to(memory_format=torch.channels_last), (1, 1, 1, 1), mode="replicate"),
    "pixel shuffle": lambda: F.pixel_shuffle(IMAGE.to(memory_format=torch.channels_last), 2),
    "singular values": lambda: torch.linalg.svd(MATRIX, full_matrices=False)[0],
    "fourier": lambda: torch.fft.rfftn(CUBE),
    "angle": lambda: torch.complex(MATRIX, MATRIX).t().angle(),
}
KNOWN = {
    "batch norm": lambda: F.batch_norm(MATRIX, None, None, training=True),
    "sum": lambda: MATRIX.t() + CUBE[:, :, 0].t(),
    "matmul": lambda: MATRIX.t() @ MATRIX,
    "views": lambda: CUBE.transpose(0, 1)[1:],
    "linear": lambda: F.linear(CUBE.mT, torch.rand(3, 6)).relu().softmax(-1),
    "layer norm": lambda: F.layer_norm(CUBE, (5,)).transpose(1, 2).contiguous(),
}


def asks(make):
    result = make()
    return result.stride(), result.is_contiguous(), result.dim_order(), result.storage_offset()


@pytest.mark.may_break
@pytest.mark.parametrize("name", UNKNOWN)
def test_what_meta_kernels_do_not_know(name):
    assert dynascope.compile(asks, backend="eager")(UNKNOWN[name]) == asks(UNKNOWN[name])


@pytest.mark.parametrize("name", KNOWN)
def test_what_they_know(name):
    assert dynascope.compile(asks, backend="eager", fullgraph=True)(KNOWN[name]) == asks(KNOWN[name])


WRITES = {
    "fill": lambda y: y.fill_(1),
    "masked fill": lambda y: y.masked_fill_(y > 0.5, 0.0),
    "by a mask": lambda y: y.__setitem__(y > 0.5, 1.0),
    "by numbers": lambda y: y.index_put_((torch.tensor([0]),), torch.tensor(1.0)),
    "out": lambda y: torch.exp(y, out=y),
    "in place twice": lambda y: F.relu(y.add_(1), inplace=True),
    "of a part": lambda y: y[:1].zero_(),
    "detached": lambda y: y.detach().add_(1),
    "statistics": lambda y: F.batch_norm(MATRIX[:, :4], y[0], y[0] + 1, training=True),
}


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("name", WRITES)
def test_versions_of_what_is_made_inside(name, rows):
    def program(x):
        made = x * 1
        part = made.narrow(0, 0, 1)
        WRITES[name](part)
        return made, made._version, part._version

    x = torch.rand(rows, 4)
    ours, theirs = dynascope.compile(program, fullgraph=True)(x), program(x)
    assert ours[1:] == theirs[1:]
    torch.testing.assert_close(ours[0], theirs[0])


@pytest.mark.expects("tensor-attribute")
@pytest.mark.parametrize("write", [lambda x: x.mul_(2), lambda x: (x * 1).data.add_(1), lambda x: x[1:].zero_()])
def test_versions_of_inputs_and_beside_data(write):
    def program(x):
        write(x)
        return x._version, x.view(-1)._version

    x = torch.rand(3)
    assert dynascope.compile(program, backend="eager")(x) == program(torch.rand(3))


@pytest.mark.expects("tensor-attribute")
def test_versions_that_meta_kernels_count_otherwise():
    classes = torch.arange(4) % 3
    program = lambda x: F.one_hot(x, 3)[:2]._version  # noqa: E731
    assert dynascope.compile(program, backend="eager")(classes) == program(classes)


@pytest.mark.expects("tensor-attribute")
def test_versions_of_what_is_a_view_at_some_sizes():
    def program(x):
        x.add_(1)
        return x.reshape(x.shape[::-1])._version

    function = dynascope.compile(program, backend="eager")
    for rows, columns in ((4, 2), (5, 2), (2, 2)):
        assert function(torch.ones(rows, 3)[:, :columns]) == program(torch.ones(rows, 3)[:, :columns])


@pytest.mark.expects("tensor-attribute")
def test_inference_tensors_have_no_version():
    def program(x):
        made = x * 1
        try:
            return made._version
        except RuntimeError as error:
            return str(error)

    with torch.inference_mode():
        assert dynascope.compile(program, backend="eager")(torch.ones(2)) == program(torch.ones(2))


def heads_of_a_layer(x):
    made = F.linear(torch.ones(1, *x.shape), torch.ones(4, x.size(1)), torch.ones(4))
    return made.view(1, -1, 2, 2).transpose(1, 2)


OF_ONE = {
    "view of an input": lambda x, y: x.transpose(0, 1).reshape(-1, 4, 1),
    "mask": lambda x, y: (y != 0)[:, :, None, None].type_as(x).masked_fill(y[:, :, None, None] > 3, 1.0),
    "view of it": lambda x, y: (y * 2)[:, :, None, None].transpose(1, 2).reshape(2, 6, 1).view(2, 3, 2, 1).permute(3, 0, 1, 2),
    "factory": lambda x, y: torch.ones(3, 1).expand(3, 4)[:, :1],
    "numbers": lambda x, y: torch.arange(6).view(6, 1) * 2,
    "part": lambda x, y: x[:1],
    "column": lambda x, y: x[:, :1][None],
    "heads of a layer": lambda x, y: heads_of_a_layer(x),
    "products": lambda x, y: torch.baddbmm(torch.ones(1, 1, 1), x[None], x.t()[None]) @ x[:, :1][None],
    "behind a norm": lambda x, y: F.dropout(F.layer_norm(CUBE, (5,)).softmax(1), 0.0).log_softmax(-1)[:, :1],
    "weights of attention": lambda x, y: (CUBE @ CUBE.mT).softmax(-1)[:, None].transpose(1, 2)[:, :1],
    "embedded": lambda x, y: F.embedding(y, torch.ones(12, 4)).view(2, 1, 6, 4).transpose(1, 2),
    "product of a column": lambda x, y: torch.addmm(torch.ones(1), x[:, :1], x[:1, :1]),
    "product of a part": lambda x, y: x[:1] @ x.t()[:, :1],
}


@pytest.mark.parametrize("name", OF_ONE)
def test_strides_of_dimensions_of_one_element(name):
    def program(x, y):
        return OF_ONE[name](x, y).stride()

    y = torch.arange(12).view(2, 6)
    for x in (torch.rand(4, 3), torch.rand(3, 4).t(), torch.rand(1, 4).t(), torch.rand(4, 6)[:, 2:3], torch.rand(4, 1).expand(4, 3)):
        assert dynascope.compile(program, backend="eager", fullgraph=True)(x, y) == program(x, y)


@pytest.mark.expects("tensor-attribute")
def test_strides_of_dimensions_of_one_element_that_only_kernels_know():
    def program(x):
        return (x.t() + 1).relu().stride()

    assert dynascope.compile(program, backend="eager")(torch.rand(1, 3)) == program(torch.rand(1, 3))


OF_NONE = {
    "number": lambda x: torch.fmod(x, 3),
    "another shape": lambda x: torch.add(x, torch.ones(1, 1), alpha=2),
    "of three": lambda x: torch.where(x > 0, x, 0),
    "view of it": lambda x: (x + 1).t(),
    "the same shape": lambda x: x + x.t().reshape(x.shape),
    "one operand": lambda x: x.sin(),
}


@pytest.mark.may_break
@pytest.mark.parametrize("name", OF_NONE)
def test_strides_of_what_has_no_elements(name):
    def program(x):
        return OF_NONE[name](x).stride()

    for x in (torch.rand(0, 1), torch.rand(1, 0).t(), torch.rand(3, 0), torch.rand(1, 1).t()[:0], torch.rand(0, 1, 2)[..., 0]):
        assert dynascope.compile(program, backend="eager")(x) == program(x)


def test_overlapping_chunks_of_a_number_of_tensors():
    """As Longformer cuts its rows: sizes by `torch.div`, strides asked of the tensor, and given by name."""

    def program(x, window):
        chunks = torch.div(x.size(1), window, rounding_mode="trunc") - 1
        padded = torch.nn.functional.pad(x, (0, 0, window, window), value=-1)
        along, step, inside = padded.stride()
        size = (x.size(0), chunks + 1, 3 * window, x.size(2))
        return padded.as_strided(size=size, stride=(along, window * step, step, inside))

    x = torch.rand(2, 6, 1)
    ours = dynascope.compile(program, backend="eager", fullgraph=True)(x, 2)
    torch.testing.assert_close(ours, program(x, 2))
    assert ours.stride() == program(x, 2).stride()


@pytest.mark.parametrize("lay_out", [lambda y: y.contiguous(), lambda y: y.to(memory_format=torch.contiguous_format)])
@pytest.mark.parametrize("backend", ["eager", "dynascope"])
def test_a_copy_that_only_the_real_tensor_needs(backend, lay_out):
    """A convolution of a channels-last image is contiguous on meta: `contiguous()` gave it back, in the wrong order of memory."""
    convolution = torch.nn.Conv2d(4, 6, 3)

    def program(x):
        made = convolution(x)
        return lay_out(made), made

    compiled = dynascope.compile(program, backend=backend, fullgraph=True)
    for image in (IMAGE.to(memory_format=torch.channels_last), IMAGE):
        ours, theirs = compiled(image), program(image)
        assert [each.stride() for each in ours] == [each.stride() for each in theirs]
        assert (ours[0] is ours[1]) == (theirs[0] is theirs[1])
        torch.testing.assert_close(ours, theirs)


@pytest.mark.expects("tensor-attribute")
def test_strides_of_what_is_made_like_a_column():
    function = dynascope.compile(lambda x: torch.empty_like(x).stride(), backend="eager")
    for x in (torch.ones(3, 1), torch.ones(1, 3).t()):
        assert function(x) == torch.empty_like(x).stride()


@pytest.mark.may_break
@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
def test_which_class_of_storage_a_tensor_has():
    def program(x):
        y = x * 2
        return x.storage_type(), y.storage_type(), y.to(torch.int16).storage_type()

    x = torch.ones(2)
    assert dynascope.compile(program, backend="eager")(x) == program(x)


@pytest.mark.gpu
def test_how_attention_lies_on_a_gpu_its_kernels_say():
    """Not meta tensors, which compute its formula: so `contiguous` may have to copy."""

    def function(q):
        return F.scaled_dot_product_attention(q, q, q).contiguous()

    q = torch.randn(2, 4, 16, 8, device="cuda")
    for operand in (q, q.transpose(1, 2).contiguous().transpose(1, 2), q.bfloat16()):
        found, expected = dynascope.compile(function, fullgraph=True)(operand), function(operand)
        torch.testing.assert_close(found, expected)
        assert found.stride() == expected.stride()
