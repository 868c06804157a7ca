"""What stands for a module until something of it is needed: as if it were the module, for everybody who asks."""

import importlib
import subprocess
import sys
import threading

import pytest
from dynascope.command.deferred_import import defer

SETTINGS = """
import sys, types
class Settings(types.ModuleType):
    def __setattr__(self, name, value): raise AttributeError(f"{name} does not exist")
value = "settings"
sys.modules[__name__].__class__ = Settings
"""


@pytest.fixture
def package(tmp_path, monkeypatch):
    """`late` with `late.parts`, which it imports, and `late.other`, which it does not. Loading it counts in `sys.late_loads`."""
    late = tmp_path / "late"
    late.mkdir()
    (late / "__init__.py").write_text(
        "import sys\nsys.late_loads += 1\nfrom late import parts, settings\n"
        "answer = 42\ndef known(): return 'the real one'\n__all__ = ['answer']\n"
    )
    (late / "parts.py").write_text("import sys, time\nsys.late_parts += 1\ntime.sleep(0.05)\nvalue = 'parts'\n")
    (late / "settings.py").write_text(SETTINGS)
    (late / "other.py").write_text("import late\nvalue = late.answer\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "late_loads", 0, raising=False)
    monkeypatch.setattr(sys, "late_parts", 0, raising=False)
    finders = list(sys.meta_path)
    defer("late", {"known": lambda: "the stand-in"})
    yield lambda: (sys.late_loads, sys.late_parts)
    sys.meta_path[:] = finders
    for name in [name for name in sys.modules if name.partition(".")[0] == "late"]:
        del sys.modules[name]


def test_what_is_known_loads_nothing(package):
    import late

    assert late.known() == "the stand-in" and not hasattr(late, "__wrapped__") and late.__file__.endswith("__init__.py")
    assert package() == (0, 0)


def test_anything_else_loads_it_once(package):
    import late as before

    assert before.answer == 42 and before.parts.value == "parts"
    import late

    assert late is not before and late.known() == before.__getattr__("known")() == "the real one"
    assert before.answer is late.answer and package() == (1, 1)
    with pytest.raises(AttributeError, match="module 'late' has no attribute 'nothing'"):
        before.nothing  # noqa: B018


@pytest.mark.parametrize("before", ["", "import late"], ids=["nothing before", "a stand-in before"])
@pytest.mark.parametrize(
    "imports",
    [
        "import late.parts; found = late.parts.value",
        "from late.parts import value as found",
        "from late import parts; found = parts.value",
    ],
)
def test_what_lies_below_it_is_the_real_ones(package, before, imports):
    program = {}
    exec(f"{before}\n{imports}", program)
    assert program["found"] == "parts" and package() == (1, 1)
    parts = sys.modules["late.parts"]
    assert sys.modules["late"].parts is parts and importlib.reload(parts) is parts


def test_a_module_below_it_may_refuse_attributes(package):
    """As torch's modules of settings do: `import torch._dynamo.config` in FSDP2 ended the program."""
    import late.settings

    assert late.settings.value == "settings" and late.settings.__spec__.name == "late.settings"


def test_what_it_does_not_import_itself_is_found_below_it(package):
    import late.other

    assert late.other.value == 42 and package() == (1, 1)


def test_all_its_names(package):
    program = {}
    exec("import late\nfrom late import *", program)
    assert program["answer"] == 42


def test_threads_that_need_it_at_once_wait_for_one_another(package):
    import late

    found = []
    ways = (
        lambda: late.answer,
        lambda: importlib.import_module("late.other"),
        lambda: importlib.import_module("late.parts"),
    )
    threads = [threading.Thread(target=lambda way=way: found.append(way())) for way in ways * 3]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert len(found) == 9 and package() == (1, 1)


def test_a_training_step_does_not_load_torchs_compiler(tmp_path):
    program = tmp_path / "train.py"
    program.write_text(
        "import sys, torch\n"
        "layer = torch.nn.Linear(3, 3)\n"
        "optimizer = torch.optim.AdamW(layer.parameters())\n"
        "@torch.compile(backend='eager')\n"
        "def step(x):\n    layer(x).sum().backward()\n    optimizer.step()\n    optimizer.zero_grad()\n"
        "step(torch.ones(2, 3)); step(torch.ones(2, 3))\n"
        "print('torch._dynamo.eval_frame' in sys.modules)\n"
        "print(torch._dynamo.config.suppress_errors, 'torch._dynamo.eval_frame' in sys.modules)\n"
    )
    command = [sys.executable, "-m", "dynascope", "run", "--fail-on", "break", str(program)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert ended.stdout.splitlines()[:2] == ["False", "False True"], ended.stderr
    assert ended.returncode == 0, ended.stderr
