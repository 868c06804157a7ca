"""`[x] * n` where n varies: a list like any other, which `stack` and `cat` need not look into."""

import dynascope
import pytest
import torch


def with_one_more(items, item):
    items.append(item)
    return items


JOINED = {
    "stacked": lambda x, n: torch.stack([x] * n),
    "stacked along the last": lambda x, n: torch.stack(n * [x, x + 1], dim=-1),
    "joined": lambda x, n: torch.cat([x, x * 2] * n, dim=1),
    "by their names": lambda x, n: torch.cat(tensors=[x] * n, dim=-2),
    "of two types": lambda x, n: torch.concat([x, x.double()] * n),
    "of columns": lambda x, n: torch.stack([x.t()] * n),
    "as often as computed": lambda x, n: torch.stack([x] * (n + 2)).sum(0) + torch.cat([x] * (n * 2)).mean(),
}
LOOKED_INTO = {
    "returned": lambda x, n: [x * 2] * n,
    "counted": lambda x, n: x * len([x] * n),
    "gone through": lambda x, n: sum(y for y in [x] * n),
    "one more": lambda x, n: torch.stack(with_one_more([x] * n, x + 1)),
    "indexed": lambda x, n: ([x] * n)[0] + ([x + 1] * n)[-1],
    "returned and stacked": lambda x, n: (torch.stack(rows := [x.sin()] * n), rows),
    "none of them": lambda x, n: [x] * (n - 2) or x + n,
    "a tuple": lambda x, n: torch.stack((x,) * n),
    "images, channels last": lambda x, n: torch.cat([x.expand(2, 2, 3, 4).contiguous(memory_format=torch.channels_last)] * n),
    "numbers": lambda x, n: torch.tensor([n] * n) + x.sum().int(),
    "modules": lambda x, n: torch.nn.Sequential(*([torch.nn.Tanh()] * n))(x),
}


def facts(answer):
    leaves = torch.utils._pytree.tree_leaves(answer)
    return [(each.dtype, each.shape, each.stride(), each.tolist()) if isinstance(each, torch.Tensor) else each for each in leaves]


@pytest.mark.parametrize("name", [*JOINED, *LOOKED_INTO])
def test_a_repeated_list_is_a_list(name):
    function, graphs = (JOINED | LOOKED_INTO)[name], []

    def kept(graph, inputs):
        graphs.append(graph)
        return graph.forward

    compiled = dynascope.compile(function, backend=kept)
    for n in (2, 3, 4, 7, 1, 5):
        x = torch.arange(12.0).view(3, 4)
        assert facts(compiled(x, n)) == facts(function(x, n))
    if name in JOINED:
        assert len(graphs) <= 2


def test_its_gradients_are_those_of_all_that_it_holds():
    x, other = (torch.arange(4.0, requires_grad=True) for _ in range(2))
    compiled = dynascope.compile(JOINED["as often as computed"], dynamic=True)
    for n in (2, 5):
        compiled(x, n).sum().backward()
        JOINED["as often as computed"](other, n).sum().backward()
        torch.testing.assert_close(x.grad, other.grad)
