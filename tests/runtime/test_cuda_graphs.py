"""Launches that are recorded once and replayed: what is read, written and given is what a call reads, writes and gives."""

from __future__ import annotations

import threading
import weakref

import dynascope
import pytest
import torch
from dynascope.runtime.cuda_graphs import MOST_RECORDINGS, REPLAYS_OF_A_RECORDING, Replayed


class Recorder:
    """A device in Python: a recording reads and writes the tensors that it was made with, whatever they hold by then, and what it
    gives lies in memory of its own, which each replay writes again. To record has no effect; `written` is put back."""

    def __init__(self, *written: torch.Tensor) -> None:
        self.lock, self.here, self.recorded, self.written = threading.RLock(), "stream", 0, written

    def place(self):
        return self.here

    def record(self, run, apart):
        assert not apart  # nothing is lent
        self.recorded += 1
        before = [tensor.clone() for tensor in self.written]
        results = run()
        for tensor, old in zip(self.written, before, strict=True):
            tensor.copy_(old)
        for result in results:
            if isinstance(result, torch.Tensor) and all(result is not tensor for tensor in self.written):
                result.fill_(-7)

        def replay():
            for result, new in zip(results, run(), strict=True):
                if isinstance(result, torch.Tensor) and result is not new:
                    result.copy_(new)

        return replay, results


def scaled(x, w):
    return (x * w, x + 1)


def replayed(call=scaled, written=(), unused=(), recorder=None, told=lambda _: None):
    recorder = recorder or Recorder()
    return Replayed(call, frozenset(written), frozenset(unused), recorder, told), recorder


def same(ours, eagers):
    for one, other in zip(ours, eagers, strict=True):
        torch.testing.assert_close(one, other)


def test_what_moves_is_copied_and_what_stays_is_read_where_it_is():
    run, recorder = replayed()
    w, batches = torch.randn(4), torch.randn(6, 4).unbind()
    kept = []
    for x in batches:
        kept.append(run(x, w))
        w.mul_(2)
    assert recorder.recorded == 1
    for n, x in enumerate(batches):
        same(kept[n], scaled(x, w / 2.0 ** (6 - n)))


def test_what_the_program_holds_is_not_written_again():
    run, _ = replayed()
    x, w = torch.randn(2, 4)
    first = [run(x, w) for _ in range(3)]
    copies = [[value.clone() for value in results] for results in first]
    x.add_(1)
    run(x, w)
    for results, before in zip(first, copies, strict=True):
        same(results, before)


def test_a_parameter_in_another_place_is_read_there():
    run, recorder = replayed()
    x = torch.randn(4)
    for w in (torch.randn(4),) * 3 + tuple(torch.randn(3, 4)):
        same(run(x, w), scaled(x, w))
    assert recorder.recorded == 2


def write(cache, x):
    cache.add_(x)
    return (cache, cache * 2)


def test_what_is_written_is_the_programs_own_memory():
    cache, other = torch.zeros(2, 4)
    recorder = Recorder(cache, other)
    run, _ = replayed(write, written=(0,), recorder=recorder)
    for number, target in enumerate((cache, cache, cache, other, cache, other)):
        expected = target + number
        given, twice = run(target, torch.full((4,), float(number)))
        assert given is target
        same((target, twice), (expected, expected * 2))
    assert recorder.recorded <= MOST_RECORDINGS


def test_writing_to_ever_other_memory_is_given_up():
    heard = []
    caches = list(torch.zeros(3 * MOST_RECORDINGS, 4))
    run, recorder = replayed(write, written=(0,), recorder=Recorder(*caches), told=heard.append)
    for cache in caches:
        run(cache, torch.ones(4))
        same((cache,), (torch.ones(4),))
    assert run.gave_up and heard == [None] and recorder.recorded == MOST_RECORDINGS


def test_memory_that_comes_again_is_written_by_the_recording_of_then():
    caches, one = list(torch.zeros(3, 4)), torch.ones(4)
    run, recorder = replayed(write, written=(0,), recorder=Recorder(*caches))
    for turn in range(1, 4 * MOST_RECORDINGS):
        for cache in caches:
            given, twice = run(cache, one)
            assert given is cache
            same((cache, twice), (torch.full((4,), float(turn)), torch.full((4,), 2.0 * turn)))
    assert not run.gave_up and recorder.recorded == len(caches)


def test_replays_pay_for_recordings():
    texts, tokens = 3 * MOST_RECORDINGS, 2 * REPLAYS_OF_A_RECORDING
    caches, one = list(torch.zeros(texts, 4)), torch.ones(4)
    run, recorder = replayed(write, written=(0,), recorder=Recorder(*caches))
    for cache in caches:
        for _ in range(tokens):
            run(cache, one)
        same((cache,), (torch.full((4,), float(tokens)),))
    assert not run.gave_up and recorder.recorded == texts
    assert len(run._recordings) == MOST_RECORDINGS


def by_number(x, number):
    return (x * number,)


def test_numbers_are_part_of_a_recording():
    run, recorder = replayed(by_number)
    x = torch.ones(4)
    for number in (2, 3, 2, 3, 2, 0.0, 0.0, -0.0, -0.0, True, True):
        (result,) = run(x, number)
        same((result.signbit(), result), ((x * number).signbit(), x * number))
    assert not run.gave_up and recorder.recorded == 5
    for number in range(2 * MOST_RECORDINGS):
        same(run(x, number), by_number(x, number))
    assert run.gave_up


def test_on_another_stream_nothing_is_replayed():
    run, recorder = replayed()
    x, w = torch.randn(2, 4)
    recorder.here = None
    for _ in range(3):
        same(run(x, w), scaled(x, w))
    assert recorder.recorded == 0


def test_what_cannot_be_recorded_runs_and_is_told():
    class Refusing(Recorder):
        def record(self, run, apart):
            raise RuntimeError("operation not permitted when stream is capturing")

    heard = []
    run, _ = replayed(recorder=Refusing(), told=heard.append)
    x, w = torch.randn(2, 4)
    for _ in range(3):
        same(run(x, w), scaled(x, w))
    assert run.gave_up and "not permitted" in str(heard[0])


def test_results_that_share_memory_stay_so():
    def call(x, w):
        return ((y := x * w), y[:2])

    run, _ = replayed(call)
    x, w = torch.randn(2, 4)
    for _ in range(4):
        ours, eagers = run(x, w), call(x, w)
        same(ours, eagers)
        assert ours[0].data_ptr() == ours[1].data_ptr()
    assert run.gave_up


def test_a_view_of_an_input_is_one_of_the_input_at_hand():
    def call(x, w):
        return (x[1:3], x, w * 1)

    class Knowing(Recorder):
        def record(self, run, apart):
            self.recorded += 1
            results = run()

            def replay():
                results[2].copy_(run()[2])

            return replay, results

    run, recorder = replayed(call, recorder=Knowing())
    w = torch.randn(4)
    for x in torch.randn(5, 5)[:, :4].unbind():
        ours, eagers = run(x, w), call(x, w)
        same(ours, eagers)
        assert ours[1] is x and ours[0].data_ptr() == eagers[0].data_ptr() and ours[0].stride() == eagers[0].stride()
    assert recorder.recorded == 1


def test_inputs_are_not_kept_alive():
    class Forgetful(Recorder):
        def record(self, run, apart):
            results = tuple(value.clone() for value in run())
            return (lambda: None), results

    run, _ = replayed(recorder=Forgetful())
    x, w = torch.randn(4), torch.randn(4)
    for _ in range(3):
        run(x, w)
    references = weakref.ref(x), weakref.ref(w)
    del x, w
    assert [reference() for reference in references] == [None, None]


def test_inputs_that_are_not_looked_at_may_be_anything():
    run, recorder = replayed(lambda x, _: (x + 1,), unused=(1,))
    x = torch.randn(4)
    for anything in (object(), torch.randn(3), None, "text"):
        same(run(x, anything), (x + 1,))
    assert recorder.recorded == 1


@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs", "default"])
def test_what_of_a_mode_is_not_done_is_said(mode):
    (graph,) = dynascope.explain(dynascope.compile(lambda x: x.sin() + 1, mode=mode), torch.ones(3)).report.graphs
    notes = [note.message for note in graph.notes if note.code == "mode-not-honoured"]
    assert any("recorded" in note and "runs on the processor" in note for note in notes) == (mode in ("reduce-overhead", "max-autotune"))
    assert any("measured" in note for note in notes) == mode.startswith("max-autotune")
    assert len(notes) == (mode != "default")


# On a GPU

@pytest.fixture
def model():
    torch.manual_seed(0)
    layers = [torch.nn.Linear(64, 64), torch.nn.GELU(), torch.nn.LayerNorm(64), torch.nn.Linear(64, 64)]
    return torch.nn.Sequential(*layers).cuda().eval()


@pytest.mark.gpu
def test_results_are_held_while_others_are_made(model):
    run = dynascope.compile(model, mode="reduce-overhead")
    batches = torch.randn(12, 8, 64, device="cuda").unbind()
    with torch.no_grad():
        ours = [run(x) for x in batches]
        for mine, x in zip(ours, batches, strict=True):
            torch.testing.assert_close(mine, model(x), rtol=1e-4, atol=1e-4)


@pytest.mark.gpu
def test_two_graphs_that_share_a_pool_take_turns(model):
    other = torch.nn.Sequential(torch.nn.Linear(64, 640), torch.nn.Softmax(-1), torch.nn.Linear(640, 64)).cuda()
    runs = [dynascope.compile(each, mode="reduce-overhead") for each in (model, other)]
    x = torch.randn(8, 64, device="cuda")
    with torch.no_grad():
        for turn in range(8):
            first = runs[turn % 2](x)
            second = runs[(turn + 1) % 2](first)
            wanted = (other, model)[turn % 2]((model, other)[turn % 2](x))
            torch.testing.assert_close(second, wanted, rtol=1e-4, atol=1e-4)
            x = second.clone()


@pytest.mark.gpu
def test_parameters_that_change_or_move_are_read(model):
    run = dynascope.compile(model, mode="reduce-overhead")
    with torch.no_grad():
        for step in range(10):
            x = torch.randn(8, 64, device="cuda")
            torch.testing.assert_close(run(x), model(x), rtol=1e-4, atol=1e-4)
            model[0].weight.mul_(1.1)
            if step in (4, 7):
                model[3].weight.data = model[3].weight.data.clone()


@pytest.mark.gpu
def test_a_cache_is_written_where_it_is():
    def step(cache, token, place):
        cache.index_copy_(1, place, token)
        return (cache * 2).sum(1)

    run = dynascope.compile(step, mode="reduce-overhead")
    caches = [torch.zeros(2, 16, 8, device="cuda") for _ in range(2)]
    with torch.no_grad():
        for number in range(12):
            token, place = torch.randn(2, 1, 8, device="cuda"), torch.tensor([number], device="cuda")
            mine = run(caches[0], token, place)
            torch.testing.assert_close(mine, step(caches[1], token, place))
            torch.testing.assert_close(*caches)


def six_of_one_seed(run, x):
    with torch.no_grad():
        torch.manual_seed(1)
        return [run(x) for _ in range(6)]


@pytest.mark.gpu
def test_random_numbers_go_on_as_eagers():
    dropout = torch.nn.Dropout(0.5)
    x = torch.ones(1000, device="cuda")
    ours = six_of_one_seed(dynascope.compile(dropout, mode="reduce-overhead"), x)
    for mine, eager in zip(ours, six_of_one_seed(dropout, x), strict=True):
        torch.testing.assert_close(mine, eager)
    assert len({tuple(mine.tolist()) for mine in ours}) == 6


@pytest.mark.gpu
def test_what_fills_a_tensor_with_random_numbers_is_recorded():
    def sample(logits):
        chances = logits.softmax(-1)
        return torch.argmax(chances / torch.empty_like(chances).exponential_(1), -1)

    run = dynascope.compile(sample, mode="reduce-overhead")
    logits = torch.zeros(64, 1000, device="cuda")
    ours = six_of_one_seed(run, logits)
    for mine, eager in zip(ours, six_of_one_seed(sample, logits), strict=True):
        assert (mine == eager).float().mean() > 0.95  # a quotient is rounded in another way
    assert len({tuple(mine.tolist()) for mine in ours}) == 6
    (graph,) = dynascope.explain(run, logits).report.graphs
    assert "mode-not-honoured" not in [note.code for note in graph.notes]


@pytest.mark.gpu
def test_another_stream_and_a_graph_of_the_programs_own(model):
    run = dynascope.compile(model, mode="reduce-overhead")
    x = torch.randn(8, 64, device="cuda")
    with torch.no_grad():
        for _ in range(3):
            run(x)
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            torch.testing.assert_close(run(x), model(x), rtol=1e-4, atol=1e-4)
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            result = run(x)
        graph.replay()
        torch.testing.assert_close(result, model(x), rtol=1e-4, atol=1e-4)
