"""Numbers that only the run of a graph knows: no break until Python must decide on one, and eager's results for all of them."""

import dynascope
import pytest
import torch
import torch.nn.functional as F
from torch import nn

pytestmark = pytest.mark.turns(2)

LAYER = nn.Linear(6, 6)


def scaled(x):
    return x * x.sum().item()


def returned(x):
    n = x.argmax().item()
    return x + n, n, n + 1, [n * 2, (n,)]


def converted(x):
    return x * float(x.sum()), int(x.argmax()) + 1, float(x.argmax()), int(x.max())


def listed(x):
    first, *rest = x.sum(1).tolist()
    return x * first, rest


def factories(x):
    n = int(x.argmax()) + 1
    return torch.zeros(n) + 1, torch.arange(n) * 2, x.view(-1)[:n] * 2, torch.full((2,), n)


def placed(x):
    n = (x > 0).sum().item()
    return x.view(-1)[n] * 2, x.view(-1)[n:].sum()


def as_arguments(x):
    f = x.sum().item()
    return torch.clamp(x, max=f), torch.where(x > 0, x, f), x > f, torch.add(x, x, alpha=f), x * max(f, x.mean().item())


def without_gradients(x):
    with torch.no_grad():
        y = LAYER(x)[x[:, 0] > 0]
        largest = y.abs().sum().item()
    return LAYER(x) / (largest + 1), y


def training_step(x):
    LAYER.zero_grad()
    loss = LAYER(x).square().mean()
    loss.backward()
    return loss.item(), LAYER.weight.grad.clone()


def of_a_mask(x):
    y = x[x > 0]
    k = y.shape[0]
    return y * 2 + k, k // 2, y[1:] - y[:-1], y.reshape(-1, 1) * y, y / max(y.numel(), 1)


def of_one_mask_twice(x):
    m = x > 0
    return x[m].exp() * x[m] + torch.masked_select(x, m), x[m].sum() + x[~m].sum()


def of_a_mask_that_changes(x):
    m = x > 0
    a = x[m]
    m.logical_not_()
    return a * 2, x[m] * 2


def of_rows(x):
    h = F.relu(LAYER(x[x[:, 0] > 0]))
    return h, h[:, 1] * 2, h.t() + 1, F.layer_norm(h, (6,)), h @ x.t(), h.new_zeros(h.shape[0], 2)


def of_columns(x):
    y = x[:, x[0] > 0]
    return torch.cat([y, y], 1), torch.stack([y, y]), y.mean(1)


def nonzero(x):
    i = (x > 0).nonzero()
    a, b = torch.where(x > 0)
    return i * 2, i.sum(), torch.argwhere(x > 1) + 1, a * 6 + b, x[a, b] * 2


def second_of_two(x):
    return torch.nonzero(x > 0, as_tuple=True)[1] * 2


def offsets(x):
    a, b = torch.where(x > 0)
    return a.storage_offset(), b.storage_offset(), b.stride(), (x > 0).nonzero().stride()


def unique(x):
    rounded = x.round()
    values, inverse, counts = torch.unique(rounded, return_inverse=True, return_counts=True)
    return values * 2, inverse + 1, counts * 2, torch.unique(rounded, return_counts=True)[1] + 1


def counted(x):
    return torch.bincount(x.view(-1).long().abs()) * 2, torch.unique_consecutive(x.round()) * 2


def counted_in_a_table(x):
    """The matrix of confusions, as measures of segmentation count it."""
    one, other = (each.long().abs() % 3 for each in (x.view(-1) * 2, x.view(-1) * 5))
    matrix = torch.bincount(3 * one + other, minlength=9).reshape(3, 3).float()
    return matrix.diag() / matrix.sum(1), torch.bincount(one, weights=x.view(-1), minlength=3) + torch.ones(3)


def repeated(x):
    return torch.repeat_interleave(x, (x[:, 0] > 0).long() + 1, dim=0) * 2


def written(x):
    y = x[x > 0]
    y.add_(1)
    x.mul_(2)
    return y * x.sum()


def written_unread(x):
    y = x[x > 0]
    y.random_(0, 7)
    return x * 2


def set_to_nothing(x):
    x[x > 0] = 0
    return x * x.nonzero().shape[0]


def drawn(x):
    return F.dropout(x[x > 0], 0.5) * 2 + torch.rand(1)


def unread(x):
    x.nonzero()
    x.sum().item()
    return x * 2


def unread_and_empty(x):
    x[:, :0].flatten().tolist()
    return x * 2


def checked(x):
    n = (x > 0).sum().item()
    torch._check(n >= 0)
    torch._check(n <= 36)
    return x.view(-1)[:n] * 2 if n >= 0 else x


def a_piece_that_comes_twice(x):
    piece = x.flatten()[: 36 - x.argmax().item()]
    return piece + x.clamp(max=piece.sum().item()).argmax().item()


def made_and_written_by_another(x):
    made = torch.zeros((x > 0).sum().item(), 2) + 1
    made.mul_(x.argmax().item())
    return made


def written_by_another(x):
    found = torch.zeros((x > 0).sum().item(), 2)
    x.mul_(x.flatten()[:4].argmax().item())
    return found


def masks_of_masks(x):
    y = torch.masked_select(x, x > 0.25)
    return torch.masked_select(x[x > 0.25], y > 0.5)


SERVED = [scaled, returned, converted, listed, factories, placed, as_arguments, without_gradients, training_step, of_a_mask]
SERVED += [of_one_mask_twice, of_a_mask_that_changes, of_rows, of_columns, nonzero, second_of_two, unique, counted, counted_in_a_table]
SERVED += [repeated, written, written_unread, set_to_nothing, drawn, unread, unread_and_empty, checked]
SERVED += [masks_of_masks, made_and_written_by_another, written_by_another]


@pytest.mark.turns(6)
@pytest.mark.compiler
@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("function", SERVED, ids=lambda function: function.__name__)
def test_one_graph_for_all_of_them(function, dynamic):
    """With none found, one, few and many; and of other sizes."""
    compiled = dynascope.compile(function, dynamic=dynamic)
    for seed in range(6):
        torch.manual_seed(seed)
        x = torch.randn(5 + seed if dynamic else 6, 6)
        if seed in (2, 3):
            x = -x.abs() - 0.1
        if seed == 3:
            x[2, 1] = 0.5
        ours, theirs = (outcome(each, x.clone(), seed) for each in (compiled, function))
        assert same(ours, theirs), (seed, ours, theirs)
    torch.manual_seed(0)
    assert len(dynascope.explain(compiled)(torch.randn(6, 6)).graphs) <= (6 if dynamic and function is listed else 1)


@pytest.mark.parametrize("function", SERVED, ids=lambda function: function.__name__)
def test_graphs_that_run_operator_by_operator_have_them_too(function):
    compiled = dynascope.compile(function, backend="eager", fullgraph=True)
    for seed in range(4):
        torch.manual_seed(seed)
        x = torch.randn(6, 6) if seed != 2 else -torch.rand(6, 6)
        assert same(outcome(compiled, x.clone(), seed), outcome(function, x.clone(), seed))


@pytest.mark.compiler
@pytest.mark.parametrize("dynamic", [None, True])
def test_a_piece_that_is_all_of_it_at_first(dynamic):
    """The views that are one then are two at other sizes."""
    compiled = dynascope.compile(a_piece_that_comes_twice, dynamic=dynamic)
    for seed in range(12):
        torch.manual_seed(seed)
        x = torch.randn(5 + seed if dynamic else 6, 6)
        assert same(compiled(x), a_piece_that_comes_twice(x))


@pytest.mark.compiler
def test_a_piece_that_is_empty_at_another_call():
    """Kernels of what comes after are not given what they were not made for, even where its size never varied before."""

    def function(x):
        flags = torch.isnan(x[:1])
        piece = flags.flatten()[: x.argmax().item()]
        return piece[piece > 0], piece.sum()

    compiled = dynascope.compile(function)
    for place in (3, 2, 0, 1, 0):
        x = torch.zeros(5)
        x[place] = 1
        assert same(compiled(x), function(x))


def outcome(function, x, seed):
    torch.manual_seed(seed)
    try:
        return function(x), x
    except dynascope.StrictError:
        raise
    except Exception as error:
        return type(error), str(error)


def same(ours, theirs):
    if isinstance(theirs, torch.Tensor):
        facts = [(each.dtype, each.shape, each.stride(), each.requires_grad) for each in (ours, theirs)]
        return facts[0] == facts[1] and torch.allclose(ours, theirs, equal_nan=True, atol=1e-5)
    if isinstance(theirs, (tuple, list)):
        return type(ours) is type(theirs) and len(ours) == len(theirs) and all(map(same, ours, theirs))
    return type(ours) is type(theirs) and (ours == theirs or (isinstance(ours, float) and abs(ours - theirs) < 1e-4))


def gated(x, w):
    m = x > 0
    return (x[m].sin() * w[m]).sum() + (x * 2).sum()


def chosen_rows(x, w):
    i = (x[:, 0] > 0).nonzero().squeeze(1)
    return (x[i] @ w).relu().sum()


def normalised(x, w):
    h = F.relu(x @ w)
    h = h[h.sum(1) > 0]
    return F.layer_norm(h @ w.t(), (6,)).square().sum() * h.shape[0]


def by_a_number(x, w):
    return (x * (x.detach() * 2).sum().item() + w).sum()


def spread(x, w):
    return (torch.repeat_interleave(x, torch.tensor([1, 2, 0, 1, 3, 1]), dim=0) * 2).sum() + w.sum()


def of_selected(x, w):
    y = torch.masked_select(x, w > 0)
    return (y.softmax(0) * y).sum() * 3


@pytest.mark.compiler
@pytest.mark.parametrize("function", [gated, chosen_rows, normalised, by_a_number, spread, of_selected])
def test_gradients_lead_through_them(function):
    compiled = dynascope.compile(function)
    for seed in range(4):
        torch.manual_seed(seed)
        x, w = torch.randn(6, 6), torch.randn(6, 6)
        results = []
        for each in (compiled, function):
            given = (x if seed < 3 else -x.abs()).clone().requires_grad_(), w.clone().requires_grad_()
            loss = each(*given)
            loss.backward()
            results.append((loss, *(tensor.grad for tensor in given)))
        for ours, theirs in zip(*results, strict=True):
            torch.testing.assert_close(ours, theirs, equal_nan=True, rtol=1e-4, atol=1e-4)


def branch(x):
    s = x.sum().item()
    return x + s if s > 0 else x - s


def while_loop(x):
    while x.abs().sum().item() > 1:
        x = x / 2
    return x


def assertion(x):
    assert x.sum().item() < 1e9
    return x * 2


def empty_or_not(x):
    y = x[x > 1.5]
    return x if y.numel() == 0 else y.max() * x


def text(x):
    n = x.argmax().item()
    return f"{n}".split("1"), x + n


def turns(x):
    return [x + at for at in range(int(x.argmax()) % 4)]


def key(x):
    n = x.argmax().item()
    return x * {n: 1}[n]


DECIDED = {branch: "data-dependent-branch", while_loop: "data-dependent-branch", assertion: "data-dependent-branch"}
DECIDED |= {empty_or_not: "data-dependent-branch", text: "data-dependent-value", turns: "data-dependent-value"}
DECIDED |= {key: "data-dependent-value", offsets: "data-dependent-value"}


@pytest.mark.parametrize("function", DECIDED, ids=lambda function: function.__name__)
def test_where_python_decides_there_is_a_break(function):
    compiled = dynascope.compile(function)
    for seed in range(4):
        torch.manual_seed(seed)
        x = torch.randn(5, 6)
        with dynascope.expected(DECIDED[function], required=not seed):
            ours = outcome(compiled, x.clone(), seed)
        assert same(ours, outcome(function, x.clone(), seed))


def refused(x):
    n = x.argmax().item()
    torch._check(n < 7, lambda: "too far")
    return x.view(-1)[:n] * 2


def test_a_check_that_fails_raises_as_in_eager():
    compiled = dynascope.compile(refused)
    x = torch.zeros(2, 4)
    x[0, 2] = 1
    assert same(outcome(compiled, x, 0), outcome(refused, x, 0))
    x[1, 3] = 2
    assert outcome(compiled, x, 0) == outcome(refused, x, 0) == (RuntimeError, "too far")


def of_another_shape(x):
    return torch.masked_select(x, x[:, :3] > 0)


@pytest.mark.expects("data-dependent-shape")
def test_what_eager_refuses_is_refused():
    compiled = dynascope.compile(of_another_shape)
    assert same(outcome(compiled, torch.ones(3, 4), 0), outcome(of_another_shape, torch.ones(3, 4), 0))


def test_graphs_say_which_sizes_they_find():
    explanation = dynascope.explain(dynascope.compile(of_a_mask))(torch.randn(4, 5))
    (graph,) = explanation.report.graphs
    text = {text.stage: text.text for text in graph.texts}["torch"]
    assert "u0: int = getitem.size(0)" in text and "f32[u0 - 1]" in text
    assert graph.kernels


def reduced_and_unread(x):
    i = (x > 0).nonzero()
    i.argmax()
    return x * 2


def placed_and_unread(x):
    x.view(-1)[(x > 0).sum().item() + 2]
    return x * 2


def multiplied_and_unread(x):
    torch.zeros(2, 3) @ torch.zeros((x > 0).sum().item(), 2)
    return x * 2


def found_and_added_unread(x):
    x[x > 0] + torch.ones(3)
    return x * 2


def found_and_reshaped_unread(x):
    x[x > 0].view(3, -1)
    return x * 2


UNREAD = [reduced_and_unread, placed_and_unread, multiplied_and_unread, found_and_added_unread, found_and_reshaped_unread]


@pytest.mark.compiler
@pytest.mark.parametrize("function", UNREAD)
def test_what_raises_unread_raises(function):
    compiled = dynascope.compile(function)
    # A size that only one number is right for, and is another while nobody knows it.
    with dynascope.expected("varying-number", "data-dependent-value", required=False):
        for x in (torch.ones(3, 4), -torch.ones(3, 4), torch.eye(3)):
            assert same(outcome(compiled, x, 0), outcome(function, x, 0))


@pytest.mark.parametrize("draws", [False, True])
@pytest.mark.parametrize("reads_size", [False, True])
def test_what_is_found_and_never_read_leaves_the_rest_as_it_was(draws, reads_size):
    def program(x):
        noise = torch.rand(3) if draws else torch.ones(3)
        found = x[x > 0.4]
        length = torch.zeros(found.shape[0] + 1).numel() if reads_size else 0
        return x.sum() * 2 + length, noise

    compiled = dynascope.compile(program)
    for seed in (1, 2, 3):
        x = torch.linspace(-seed, 1, 6).requires_grad_()
        torch.manual_seed(seed)
        expected = program(x)
        torch.manual_seed(seed)
        torch.testing.assert_close(compiled(x), expected)


def test_two_to_the_power_of_how_many_there_are():
    """Which is an int, as there are never fewer than none."""
    program = lambda x: x * 2 ** (x > 0).nonzero().shape[0]  # noqa: E731
    compiled = dynascope.compile(program)
    for count in range(5):
        x = torch.tensor([1.0] * count + [-1.0, -2.0])
        assert torch.equal(compiled(x), program(x))


@pytest.mark.expects("leaf-inside")
def test_a_view_made_without_gradients_that_is_written_after_the_number_is_known():
    @torch.no_grad()
    def program(x):
        turned = x.mT
        scaled = turned * x.sum().item()
        turned.mul_(scaled)
        return scaled

    x, y = (torch.ones(2, 3, requires_grad=True) for _ in range(2))
    torch.testing.assert_close(dynascope.compile(program)(x), program(y))
    torch.testing.assert_close(x, y)


@pytest.mark.compiler
@pytest.mark.may_break
def test_what_a_call_looked_at_first_stays_known_when_it_is_made_again():
    """A mask of one truth value is made a number and the call made again: `n` and `y` were inputs of the first one alone."""

    def with_a_number(x, y, n):
        x[x.sum().item() * y.sum() > 0] = n
        return x * 2

    def with_a_tensor(x, y, n):
        x[y.sum() * 2 > 0.5] = n
        return x * 2

    for function in (with_a_number, with_a_tensor):
        compiled = dynascope.compile(function)
        for n in (2.0, 3.0, torch.tensor(4.0), 5.0):
            for sign in (1, -1):
                x, y = torch.ones(3, 2), torch.ones(2) * sign
                expected, given = x.clone(), x.clone()
                torch.testing.assert_close(compiled(given, y, n), function(expected, y, n))
                torch.testing.assert_close(given, expected)


TABLE, SQUARE, WEIGHT = torch.arange(10.0), torch.arange(9.0).view(3, 3), torch.nn.Parameter(torch.arange(10.0))


def written_at(t):
    y = torch.zeros(3, 10)
    y[:, t] = TABLE[:3]
    return y * 2


PLACES = {
    "of a table": lambda t: TABLE[t] * 2,
    "from the end": lambda t: TABLE[-1 - t].exp(),
    "of two": lambda t: SQUARE[t, t] + SQUARE[:, t].sum() + SQUARE[t, 1],
    "of several": lambda t: sum(TABLE[s] * s for s in torch.stack([t, t + 1]).unbind()),
    "written": written_at,
}


@pytest.mark.compiler
@pytest.mark.parametrize("program", PLACES.values(), ids=PLACES)
def test_a_tensor_that_says_a_place_is_the_number_in_it(program):
    """As schedulers of diffusion models look their step up: `alphas[t]`."""
    compiled = dynascope.compile(program, fullgraph=True)
    for number in (1, 0, 2, 1):
        assert torch.equal(compiled(torch.tensor(number)), program(torch.tensor(number)))


@pytest.mark.compiler
def test_gradients_lead_back_to_the_table():
    def loss(t, x):
        return (WEIGHT[t] * x + WEIGHT[t].exp()).sum()

    compiled, x = dynascope.compile(loss, fullgraph=True), torch.randn(3)
    for number in (0, 2, 2):
        ours, theirs = (torch.autograd.grad(function(torch.tensor(number), x), WEIGHT)[0] for function in (compiled, loss))
        torch.testing.assert_close(ours, theirs)


@pytest.mark.compiler
def test_gradients_inside_through_what_is_looked_up_or_chosen():

    def looked_up(t):
        return torch.autograd.grad(WEIGHT[t] ** 2, WEIGHT)[0]

    def chosen(t):
        return torch.autograd.grad(torch.cond(t > 1, lambda w: w.sin(), lambda w: w * 2, (WEIGHT,)).sum(), WEIGHT)[0]

    for program in (looked_up, chosen):
        compiled = dynascope.compile(program)
        for number in (1, 0, 2, 1):
            torch.testing.assert_close(compiled(torch.tensor(number)), program(torch.tensor(number)))


@pytest.mark.compiler
@pytest.mark.may_break
def test_what_is_looked_up_may_be_written():
    def written(t, table):
        y = table[t]
        y.mul_(2)
        table.add_(1)
        return y * table.sum()

    compiled = dynascope.compile(written)
    for number in (1, 0, 2):
        tables = torch.arange(6.0).view(3, 2), torch.arange(6.0).view(3, 2)
        ours, theirs = (function(torch.tensor(number), table) for function, table in zip((compiled, written), tables, strict=True))
        assert torch.equal(ours, theirs) and torch.equal(*tables)


@pytest.mark.compiler
def test_what_is_looked_up_is_a_view_and_a_place_outside_an_error():
    compiled = dynascope.compile(lambda t: TABLE[t])
    assert compiled(torch.tensor(3)).data_ptr() == TABLE[3].data_ptr()
    for number in (10, -11):
        with pytest.raises(IndexError, match=f"index {number} is out of bounds for dimension 0 with size 10"):
            compiled(torch.tensor(number))


def test_a_question_that_only_the_run_answers_is_no_error_of_the_program():
    def program(x):
        y = torch.cat([x, x[: (x > 0).sum().item()]])
        try:
            return y if y.numel() < 6 else y * 2
        except Exception:
            return None

    compiled = dynascope.compile(program)
    with dynascope.expected("data-dependent-branch"):
        for values in ([1.0, 2.0, -1.0], [3.0, 4.0, 5.0, 6.0], [-1.0, 2.0]):
            assert torch.equal(compiled(torch.tensor(values)), program(torch.tensor(values)))


@pytest.mark.expects("data-dependent-value")
def test_rows_that_are_as_many_as_those_of_another_tensor():
    """Whether they are is known when it runs: the graph ends there, and Python makes the call, or raises."""

    def program(x, lengths):
        numbers = torch.repeat_interleave(torch.arange(2), lengths)
        return LAYER(x) * numbers[:, None] + 1

    compiled = dynascope.compile(program)
    for lengths in ((3, 2), (4, 4), (1, 0)):
        x = torch.rand(sum(lengths), 6)
        torch.testing.assert_close(compiled(x, torch.tensor(lengths)), program(x, torch.tensor(lengths)))
    with pytest.raises(RuntimeError, match="must match the size"):
        compiled(torch.rand(5, 6), torch.tensor([3, 3]))


@pytest.mark.expects("data-dependent-value")
def test_rows_of_a_size_that_the_run_says_are_no_error_of_the_program():
    def program(x, groups, offsets):
        return x.new_zeros(int(groups.max()) + 1, 3).index_add_(0, groups, x) + offsets

    compiled = dynascope.compile(program)
    for count in (5, 7, 2):
        given = torch.rand(8, 3), torch.arange(8) % count, torch.rand(count, 3)
        torch.testing.assert_close(compiled(*given), program(*given))


def chosen_twice(x, labels):
    return F.cross_entropy(x[labels != -1], labels[labels != -1])


def chosen_before_and_after_a_write(x, labels):
    before = x[labels != -1]
    labels.add_(1)
    return before.sum() + (x[labels != -1] * 2).sum()


def drawn_twice(x, labels):
    return x[torch.rand(len(x)) > 0.5].sum() + x[torch.rand(len(x)) > 0.5].square().sum()


@pytest.mark.compiler
@pytest.mark.parametrize("program", [chosen_twice, chosen_before_and_after_a_write, drawn_twice])
def test_a_mask_that_is_written_twice_is_counted_once(program):
    compiled = dynascope.compile(program, fullgraph=True)
    for seed in range(3):
        found = []
        for function in (compiled, program):
            torch.manual_seed(seed)
            x, labels = torch.randn(8, 4, requires_grad=True), torch.randint(-1, 3, (8,))
            loss = function(x, labels)
            found.append((loss.detach(), *torch.autograd.grad(loss, x), labels))
        torch.testing.assert_close(*found)


@pytest.mark.may_break
@pytest.mark.parametrize("first", [0, 3])
def test_how_many_rows_are_left_is_not_taken_from_a_guess(first):
    """The number that stands for the one that is read takes all rows away, whatever larger ones are tried."""

    def program(table, places):
        left = table[places.argmax().item() :]
        return [row + 1 for row in left], left.unbind(0)[0]

    def of(place, rows):
        return torch.arange(4 * rows).view(rows, 4), torch.arange(4) == place

    compiled = dynascope.compile(program)
    for place, rows in ((first, first + 1), (0, 1), (0, 3), (2, 3)):
        table, places = of(place, rows)
        assert repr(compiled(table, places.int())) == repr(program(table, places.int()))
    with pytest.raises(IndexError, match="tuple index out of range"):
        compiled(*(each.int() for each in of(2, 1)))


@pytest.mark.may_break
def test_a_number_beside_a_mask_that_is_out_of_range():
    compiled = dynascope.compile(lambda x, mask: x[0, mask])
    for _ in range(2):
        with pytest.raises(IndexError, match="index 0 is out of bounds for dimension 0 with size 0"):
            compiled(torch.ones(0, 1, 1), torch.ones(1, 1) > 0)
    assert compiled(torch.ones(1, 1, 1), torch.ones(1, 1) > 0).tolist() == [1.0]


def test_how_many_there_are_is_counted_by_what_nobody_reads():
    def mean(x):
        torch.argwhere(x > 0.37)
        return x[x > 0.37].sum() / max((x > 0.37).sum().item(), 1)

    compiled = dynascope.compile(mean, fullgraph=True)
    for x in (torch.tensor([1.0, 0.0, 2.0, 3.0]), torch.zeros(4), torch.tensor([0.0, 4.0, 0.0, 0.0])):
        torch.testing.assert_close(compiled(x), mean(x))


def changed_after_a_pass(x):
    values, places = F.max_pool2d(x, 2, return_indices=True)
    values.sum().backward(retain_graph=True)
    places.add_(1)
    if float(x.detach().sum()) > 1e9:
        return None
    return values.sum(), places


def two_results_apart(x):
    values, places = x.flatten().topk(3)
    values.sum().backward(retain_graph=True)
    if float(x.detach().sum()) > 1e9:
        return None
    places.add_(1)
    return values * 2, places


@pytest.mark.compiler
@pytest.mark.expects("data-dependent-branch")
@pytest.mark.parametrize("program", [changed_after_a_pass, two_results_apart])
def test_results_of_one_operator_are_given_to_other_parts_as_tensors(program):
    compiled = dynascope.compile(program)
    for seed in range(2):
        torch.manual_seed(seed)
        x, y = (torch.randn(1, 1, 4, 4, generator=torch.Generator().manual_seed(seed)).requires_grad_() for _ in range(2))
        for one, other in zip(compiled(x), program(y), strict=True):
            torch.testing.assert_close(one, other)
        torch.testing.assert_close(x.grad, y.grad)


@pytest.mark.parametrize("backend", ["eager", "dynascope"])
def test_a_table_of_numbers(backend):
    """A confusion matrix as lists of lists, computed with row by row."""

    def program(x, classes):
        table = torch.zeros(3, 3).index_put_((classes, x.argmax(1)), torch.ones(len(x)), accumulate=True)
        rows = table.tolist()
        return rows, [row[at] * 2 + sum(row) for at, row in enumerate(rows)], x * rows[0][0], torch.zeros(2, 0).tolist()

    compiled = dynascope.compile(program, fullgraph=True, backend=backend)
    for count in (4, 6, 7):
        given = torch.randn(count, 3), torch.randint(0, 3, (count,))
        found, expected = compiled(*given), program(*given)
        assert (*found[:2], found[3]) == (*expected[:2], expected[3])
        assert torch.equal(found[2], expected[2])


def test_what_is_divided_by_is_asked_whether_it_is_zero():
    """Where it is, the program raises as it was written, and what came before that is done once."""

    def averages(x, chosen, seen):
        seen.append(len(seen))
        count = chosen.sum().item()
        return (x * chosen).sum().item() / count, x.sum().item() // count, 7 % count

    compiled, seen = dynascope.compile(averages, backend="eager", fullgraph=True), []
    x = torch.arange(4.0)
    for count in (1, 3, 0, 2):
        if count:
            assert compiled(x, x < count, seen) == averages(x, x < count, [])
            continue
        with pytest.raises(ZeroDivisionError):
            compiled(x, x < count, seen)
    assert seen == [0, 1, 2, 3]
