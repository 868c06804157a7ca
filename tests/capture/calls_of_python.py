"""Random calls of what Python's own types and functions offer, right and wrong ones, compiled against plain Python.

    written(7)   ->  ("[3, 1, 2]", ["subject.insert(0, 'a')", "sorted(subject)"])     what they are about, and the calls
    differs(7)   ->  None, or what the two gave

The methods are those that `dir` finds, the arguments are drawn: nobody has to think of a call for it to be tried. Compared are
results and what the exceptions say, the subject afterwards, and the classes of iterators, but for those in `ANY_ITERATOR`.
"""

from __future__ import annotations

import collections
import functools
import itertools
import math
import operator
import random
import re
import types
import warnings
from collections.abc import Mapping
from typing import Any

import dynascope
import torch
from dynascope.command.explain import codes

DEFECTS = ("internal-failure", "engine-error", "guard-raises", "guard-fails-at-once", "kernel-generation-failed",
           "compilation-failed", "kernels-not-built", "backend-failed")  # fmt: skip
"""What no call may meet, as in `tests/differential/tensor_checking.py`. Breaks and refusals are the program's own."""
SUBJECTS: dict[type, list[str]] = {
    list: ["[3, 1, 2]", "[]", "[[1], 'a', None]", "[x, 1]"],
    tuple: ["(3, 1, 2)", "()", "('a', (1,), x)"],
    dict: ["{'a': 1, 'b': 2}", "{}", "{1: x, (1, 2): [1]}"],
    set: ["{1, 2, 3}", "set()", "{'a', 1}"],
    frozenset: ["frozenset({1, 2})", "frozenset()"],
    str: ["'a b'", "''", "'%s-%s'", "'{} {a}'", "'Abc,def'"],
    bytes: ["b'ab c'"],
    int: ["5", "0", "-3"],
    bool: ["True"],
    float: ["2.5", "-0.0", "3.0"],
    complex: ["1+2j"],
    range: ["range(2, 9, 3)", "range(0)"],
    slice: ["slice(1, 5, 2)"],
    collections.deque: ["collections.deque([1, 2, 3], maxlen=3)", "collections.deque()", "collections.deque([3, 1, 2])"],
    collections.OrderedDict: ["collections.OrderedDict(a=1, b=2)"],
    collections.Counter: ["collections.Counter('abca')"],
    collections.defaultdict: ["collections.defaultdict(list, a=[1])", "collections.defaultdict(int, a=1)"],
    collections.ChainMap: ["collections.ChainMap({'a': 1}, {'b': 2})"],
    type(None): ["None"],
    torch.Size: ["torch.Size([2, 3])"],
}
ARGUMENTS = [
    *("1", "-1", "0", "2", "2.5", "True", "None", "'a'", "'b'", "'ab'", "' '", "','", "b'a'", "x", "int", "dict"),
    *("[2, 3]", "[3, 1, 2]", "(1, 2)", "(3, 1, 2)", "{2, 7}", "frozenset({1})", "{'a': 5}", "[('a', 3)]"),
    *("(lambda v: -v)", "range(3)", "slice(0, 2)", "iter([1, 2])"),
]
KEYWORDS = ["key=(lambda v: -v)", "reverse=True", "default=7", "start=2", "strict=True", "initial=3", "fillvalue=0"]
KEYWORDS += ["repeat=2", "func=max", "base=8", "ndigits=1", "a=3"]
MODULES = {"torch": torch, "collections": collections, "itertools": itertools, "functools": functools}
MODULES |= {"operator": operator, "math": math}
FUNCTIONS = """
    len sorted reversed enumerate zip map filter sum min max any all abs divmod pow round isinstance issubclass callable repr str int
    float bool complex list tuple dict set frozenset range slice iter next ord chr bin hex oct format getattr hasattr type ascii
    bytes dict.fromkeys str.join str.maketrans int.from_bytes list.index dict.get set.union
    collections.deque collections.Counter collections.OrderedDict collections.defaultdict collections.namedtuple
    itertools.chain itertools.product itertools.repeat itertools.accumulate itertools.zip_longest itertools.islice
    itertools.permutations itertools.combinations itertools.combinations_with_replacement itertools.compress itertools.starmap
    itertools.takewhile itertools.dropwhile itertools.groupby itertools.pairwise itertools.filterfalse
    functools.reduce functools.partial
    operator.add operator.getitem operator.contains operator.itemgetter operator.attrgetter operator.methodcaller operator.concat
    operator.countOf operator.indexOf operator.index operator.length_hint operator.mod operator.is_ operator.not_ operator.truth
    operator.iadd operator.setitem operator.delitem
    math.sqrt math.floor math.ceil math.gcd math.prod math.isclose math.fsum math.hypot math.comb math.isqrt math.fmod math.copysign
    math.log math.dist math.frexp math.trunc math.pow math.factorial
""".split()  # noqa: SIM905
NOT_TRIED = frozenset(
    """__class__ __new__ __init_subclass__ __subclasshook__ __reduce__ __reduce_ex__ __getstate__ __setstate__ __sizeof__ __dir__
    __class_getitem__ __doc__ __getattribute__ __setattr__ __delattr__ __dict__ __weakref__ __module__ __annotations__ __slots__
    __hash__""".split()  # noqa: SIM905
)
ANY_ITERATOR = itertools.product, itertools.permutations, itertools.combinations, itertools.zip_longest
ANY_ITERATOR += (itertools.combinations_with_replacement,)
"""What becomes of such an object, once made and then returned, is an iterator over the same items."""
ITERATORS = (
    *(type(iter(each)) for each in ([], (), {}, {}.items(), {}.values(), set(), "", "\xe9", b"", range(1), range(1 << 70))),
    *(type(iter(each)) for each in (collections.deque(), collections.OrderedDict())),
    *(type(reversed(each)) for each in ([], {}, {}.items(), {}.values(), range(1), (), collections.deque())),
    *(map, zip, filter, enumerate, types.GeneratorType, itertools.chain, itertools.accumulate, itertools.islice),
    *(itertools.compress, itertools.starmap, itertools.takewhile, itertools.dropwhile),
    *(itertools.pairwise, itertools.filterfalse, *ANY_ITERATOR),
)
PROGRAM = """
def inside(x):
    y = x + 1
    subject = {subject}
{calls}    return y * 2, results, subject


def outside(x, subject):
    y = x + 1
{calls}    return y * 2, results, subject
"""
CALL = """    try:
        results.append({call})
    except Exception as error:
        results.append((type(error), error.args))
"""


def written(seed: int) -> tuple[str, list[str]]:
    source = random.Random(seed)
    cls = source.choice(list(SUBJECTS))
    return source.choice(SUBJECTS[cls]), [_call(source, cls) for _ in range(source.choice((1, 1, 2, 3)))]


def _call(source: random.Random, cls: type) -> str:
    everything = [text for texts in SUBJECTS.values() for text in texts]
    given = [source.choice(ARGUMENTS) for _ in range(source.choice((0, 0, 1, 1, 1, 1, 2, 2, 3)))]
    if source.random() < 0.6:
        name = source.choice([name for name in sorted(dir(cls)) if name not in NOT_TRIED])
        return f"subject.{name}({', '.join(given)})" if callable(getattr(cls, name, None)) else f"subject.{name}"
    given = [source.choice((each, source.choice(everything))) for each in given]
    if given and source.random() < 0.6:
        given[0] = "subject"
    if source.random() < 0.2:
        given.append(source.choice(KEYWORDS))
    return f"{source.choice(FUNCTIONS)}({', '.join(given)})"


def differs(seed: int) -> str | None:
    subject, calls = written(seed)
    text = PROGRAM.format(subject=subject, calls="    results = []\n" + "".join(CALL.format(call=call) for call in calls))
    space = dict(MODULES)
    exec(compile(text, f"<calls of seed {seed}>", "exec"), space)
    for name in ("inside", "outside"):
        plain, ours = (_given_by(space, name, subject, compiles) for compiles in (False, True))
        if plain != ours:
            return f"seed {seed}, {name}: subject = {subject}; {'; '.join(calls)}\n  plain {plain}\n  ours  {ours}"
    return None


def _given_by(space: dict[str, Any], name: str, subject: str, compiles: bool) -> Any:
    x = torch.tensor([1.0, 2.0])
    given = [x] if name == "inside" else [x, eval(subject, {**space, "x": x})]
    function = dynascope.compile(space[name], backend="eager", options={"strict": True}) if compiles else space[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with dynascope.expected(*set(codes()) - set(DEFECTS), required=False):
                return plainly(function(*given))
        except Exception as error:
            return "raised", type(error).__name__, str(error)
        finally:
            dynascope.reset()


def plainly(thing: Any) -> Any:
    """Of two results that Python would call alike the same, of others not."""
    kind = type(thing).__qualname__
    if isinstance(thing, torch.Tensor):
        return kind, thing.dtype, tuple(thing.shape), thing.tolist()
    if isinstance(thing, ITERATORS):
        return "iterator" if isinstance(thing, (*ANY_ITERATOR, type(iter(())))) else kind, _items(thing)
    if isinstance(thing, itertools.groupby):
        return kind, [(plainly(key), plainly(list(group))) for key, group in thing]
    if isinstance(thing, collections.ChainMap):
        return kind, [plainly(each) for each in thing.maps]
    if isinstance(thing, (list, tuple, collections.deque, type({}.keys()), type({}.items()), type({}.values()))):
        return kind, getattr(thing, "maxlen", None), [plainly(each) for each in thing]
    if isinstance(thing, (set, frozenset)):
        return kind, sorted(repr(plainly(each)) for each in thing)
    if isinstance(thing, Mapping):
        pairs = [(plainly(key), plainly(item)) for key, item in thing.items()]
        return kind, plainly(getattr(thing, "default_factory", None)), pairs
    if isinstance(thing, functools.partial):
        return kind, plainly(thing.func), plainly(thing.args), plainly(thing.keywords)
    if isinstance(thing, types.FunctionType):
        return kind, thing.__qualname__
    words = re.sub(r"0x[0-9a-f]+", "0x", repr(thing))
    # A method that is inherited is named after the class that has it, or, once it is bound, after the object's.
    return kind, re.sub(r"\w+\.(\w+\(\) takes)", r"\1", words) if isinstance(thing, str) else words


def _items(iterator: Any) -> Any:
    try:
        return [plainly(item) for item in itertools.islice(iterator, 50)]
    except Exception as error:
        return type(error).__name__, str(error)
