"""What is kept for the backward pass, and what is computed again."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from compare import compile_graph
from dynascope.grad import GradOptions
from dynascope.grad.cut import SINK, SOURCE, FlowNetwork
from dynascope.grad.pair import InputItself
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import fx


def pair_of(program, inputs, **options):
    return compile_graph(fx.symbolic_trace(program), inputs, GradOptions(**options))[0]


def test_a_pointwise_chain_keeps_its_input_alone():
    pair = pair_of(lambda x: x.sin().exp().tanh().sigmoid(), [torch.randn(64, requires_grad=True)])
    assert [s.origin for s in pair.saved] == [InputItself(0)]
    assert pair.saved_bytes == 0


def test_a_loss_of_an_input_keeps_that_input_alone():
    """Limits, logarithms and triangles are pointwise too."""

    def loss(x):
        entropy = F.binary_cross_entropy_with_logits(x, torch.ones_like(x), reduction="none")
        return (x.sigmoid().clamp_max(0.9) ** 2 * entropy.tril()).mean()

    pair = pair_of(loss, [torch.randn(16, 16, requires_grad=True)])
    assert [s.origin for s in pair.saved] == [InputItself(0)]


def test_what_classes_are_compared_with_is_made_again_from_them():
    """Not kept beside the probabilities that it is subtracted from."""
    x, classes = torch.randn(64, 32, requires_grad=True), torch.randint(0, 32, (64,))
    pair = pair_of(lambda x, t: ((x.sigmoid() - F.one_hot(t, 32)) ** 2).mean(), [x, classes])
    assert sum(saved.layout.dtype is torch.float32 for saved in pair.saved) == 1


def test_places_of_pooling_are_kept_in_as_few_bytes_as_a_plane_needs():
    """Unless they are a result, which is kept as it is."""
    for side, bytes_of_a_place in ((16, 2), (200, 4)):
        image = torch.randn(1, 2, side, side, requires_grad=True)
        pooled = 2 * (side // 2) ** 2
        pair = pair_of(lambda x: F.max_pool2d(x, 2) * 2, [image])
        assert pair.saved_bytes == pooled * bytes_of_a_place
        both = pair_of(lambda x: F.max_pool2d(x, 2, return_indices=True), [image])
        (places,) = (saved for saved in both.saved if saved.layout.dtype is torch.int64)
        assert places.origin.index < both.visible_count


def test_random_numbers_are_kept_and_drawn_once():
    pair = pair_of(lambda x: F.dropout(x, 0.5, True) * 2, [torch.randn(64, requires_grad=True)])
    targets = [str(n.target) for m in (pair.forward, pair.backward) for n in m.graph.nodes if n.op == "call_function"]
    assert sum("bernoulli" in t for t in targets) == 1


def test_matmul_runs_once():
    x, w = torch.randn(64, 8, requires_grad=True), torch.randn(8, 64, requires_grad=True)
    pair = pair_of(lambda x, w: (x @ w).relu().sum(), [x, w])
    forward = [n for n in pair.forward.graph.nodes if n.target is torch.ops.aten.mm.default]
    backward = [n for n in pair.backward.graph.nodes if n.target is torch.ops.aten.mm.default]
    assert (len(forward), len(backward)) == (1, 2)


def test_minimum_cut_keeps_no_more_than_everything():
    inputs = [torch.randn(16, 16, requires_grad=True) for _ in range(2)]
    program = lambda x, w: F.layer_norm(F.gelu(x @ w), (16,)).softmax(-1)  # noqa: E731
    assert pair_of(program, inputs).saved_bytes <= pair_of(program, inputs, saving="everything").saved_bytes


def test_of_a_normalized_activation_its_operand_alone_is_kept():
    """Convolutions read what was normalized and activated, which is made again from what was normalized."""

    def block(x, a, b):
        x = F.conv2d(F.silu(F.group_norm(x, 2)), a)
        return F.conv2d(F.silu(F.group_norm(x, 2)), b)

    inputs = [torch.randn(sizes, requires_grad=True) for sizes in ((2, 4, 8, 8), (4, 4, 1, 1), (4, 4, 1, 1))]
    between, statistics = 2 * 4 * 8 * 8 * 4, 2 * (2 * 2) * 4
    assert pair_of(block, inputs).saved_bytes == between + 2 * statistics


def residual(x, a, b, c, d):
    """Blocks as under autocast: a stream in float32, layers in bfloat16."""
    for weight in (a, b, c, d):
        x = x + (F.layer_norm(x, x.shape[-1:]).bfloat16() @ weight).float()
    return x.sin()


def test_a_residual_stream_is_kept_not_made_again_from_all_layers():
    x = torch.randn(16, 32, requires_grad=True)
    weights = [torch.randn(32, 32, dtype=torch.bfloat16, requires_grad=True) for _ in range(4)]
    backward = pair_of(residual, [x, *weights]).backward
    adds = [n for n in backward.graph.nodes if n.target is torch.ops.aten.add.Tensor]
    # One of each norm's gradient to what goes past it. The first state may be computed from the input, the last from the one before.
    assert len(adds) <= len(weights) + 2


def test_of_equal_sizes_what_is_written_anyway_is_kept():
    """The matmul's result lies in memory; the log-softmax, rounded to 16 bits as well, would be written to be kept."""

    def loss(x, w, target):
        return F.nll_loss(F.log_softmax(x @ w, -1).float(), target)

    x, w = (torch.randn(64, 64, dtype=torch.bfloat16, requires_grad=True) for _ in range(2))
    pair = pair_of(loss, [x, w, torch.randint(0, 64, (64,))])
    (product,) = (n for n in pair.forward.graph.nodes if n.target is torch.ops.aten.mm.default)
    results = pair.forward.graph.output_node().args[0]
    whole = [n for n in results if isinstance(n, fx.Node) and tuple(n.meta["val"].shape) == (64, 64) and n.op != "placeholder"]
    assert whole == [product]


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6), st.integers(1, 9)), max_size=15), st.data())
def test_the_cut_separates_and_costs_the_maximum_flow(edges, data):
    import networkx

    costs = data.draw(st.lists(st.integers(1, 9), min_size=7, max_size=7))
    ours, theirs = FlowNetwork(), networkx.DiGraph()
    entries = [ours.add_value(cost) for cost in costs]
    for value, cost in enumerate(costs):
        theirs.add_edge((value, "in"), (value, "out"), capacity=cost)
    for a, b, _ in edges:
        if a < b:
            ours.add_edge(entries[a] + 1, entries[b])
            theirs.add_edge((a, "out"), (b, "in"), capacity=1 << 50)
    ours.add_edge(SOURCE, entries[0])
    theirs.add_edge("source", (0, "in"), capacity=1 << 50)
    ours.add_edge(entries[6] + 1, SINK)
    theirs.add_edge((6, "out"), "sink", capacity=1 << 50)
    cut = [entries.index(entry) for entry in ours.cut_near_sink()]
    assert sum(costs[v] for v in cut) == networkx.maximum_flow_value(theirs, "source", "sink")
