"""The symbolic interpreter: frames, the dispatch loop, calls and exceptions. What instructions mean is in `opcodes/`.

    machine.run(base)    interprets until the frame at depth `base` returns, and gives its result

A handler takes what it needs from the stack and returns what to push: a value, a frame to run first (whose result is
pushed when it returns, without recursion here, so that a break inside can resume every frame), or None. Code that needs
a result at once (`bool(x)` of a branch, the key of a sort) calls `call_now`, which runs a nested loop; a break in there
is a break at the instruction that asked.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from types import GeneratorType
from typing import Any
from warnings import WarningMessage

import torch

from dynascope.capture import tensor_protocol
from dynascope.capture.extents import Extents
from dynascope.capture.frames import Frame, Program
from dynascope.capture.graph import GraphBuilder
from dynascope.capture.guard_log import GuardLog
from dynascope.capture.journal import Journal
from dynascope.capture.layers import layer_of
from dynascope.capture.metadata import default_device
from dynascope.capture.outside import Outside
from dynascope.capture.protocols.gradient_requirements import RequirementValue
from dynascope.capture.protocols.number_keys import NumberKeys
from dynascope.capture.protocols.overriding import Overriding
from dynascope.capture.reasons import (
    DataDependentBranch,
    ForeignValue,
    LimitReached,
    ProgramRaises,
    UnsupportedInstruction,
)
from dynascope.capture.region import CaptureOptions
from dynascope.capture.remade import is_own_value
from dynascope.capture.signals import Break, CaptureAgain, Raised
from dynascope.capture.sizes import Sizes
from dynascope.capture.torch_state import TorchState
from dynascope.capture.tracebacks import note_passage
from dynascope.capture.values import (
    NONE,
    UNSEEN,
    CellValue,
    ConditionValue,
    ConstantValue,
    DataValue,
    FunctionValue,
    GeneratorValue,
    GradientValue,
    InstanceDictionaryValue,
    InstanceValue,
    SymbolicNumber,
    TensorValue,
    Value,
    WeakReferenceValue,
)
from dynascope.guards.global_state import function_state
from dynascope.guards.source import (
    AttributeSource,
    ConstantSource,
    FrameValues,
    GlobalSource,
    ItemSource,
    MadeSource,
    Source,
)
from dynascope.report.span import Layer, Span, UserStack
from dynascope.sizes import Relation

Step = Callable[["Machine", Frame, Any], Any]
STEPS: dict[str, Step] = {}

# Operations that only move values about: they cannot break, so nothing needs remembering before them. Nor may a capture be told to
# end before a function has its cells, which what goes on after a break is handed.
SAFE = frozenset(
    [
        "MAKE_CELL",
        "COPY_FREE_VARS",
        "LOAD_FAST",
        "LOAD_CONST",
        "STORE_FAST",
        "POP_TOP",
        "PUSH_NULL",
        "COPY",
        "SWAP",
        "NOP",
        "RESUME",
        "JUMP_FORWARD",
        "JUMP_BACKWARD",
        "LOAD_CLOSURE",
        "BUILD_TUPLE",
    ]
)


def operation(*names: str) -> Callable[[Step], Step]:
    """Registers what an instruction does."""

    def register(step: Step) -> Step:
        for name in names:
            STEPS[name] = step
        return step

    return register


class Returned:
    """A frame is done (or, for a generator, suspended)."""

    __slots__ = ("suspended", "value")

    def __init__(self, value: Value) -> None:
        self.value = value
        self.suspended = False


class Machine:
    """All state of one capture."""

    def __init__(self, values: FrameValues, options: CaptureOptions) -> None:
        self.values = values
        self.options = options
        self.journal = Journal()
        self.graph = GraphBuilder(self.journal, self.user_stack)
        self.guards = GuardLog(self.user_stack)
        self.sizes = Sizes(self.graph, self.user_stack, self.look)
        self.state_at_entry = TorchState.now()
        self.overriding = Overriding(function_state())
        self.extents = Extents(self)
        self.tensor_classes: set[type] = set()
        self.outside = Outside(self)
        self.frames: list[Frame] = []
        self.tensor_writes: list[TensorValue] = []
        self.member_sources: dict[tuple[type, str], Source] = {}
        self.global_writes: dict[tuple[int, str], tuple[dict, Value]] = {}
        self.written: list[Value] = []
        self.gradients: dict[TensorValue, GradientValue] = {}
        self.assigned: dict[TensorValue, DataValue] = {}
        self.requirements: dict[TensorValue, RequirementValue] = {}
        self.beside_tensors: dict[tuple[TensorValue, str], Value] = {}
        """What the program has put beside tensors by a name (`x.note = v`)."""
        self.leaves_made: list[TensorValue] = []
        """Tensors made inside that the program has told to require grad."""
        self.parameters_made: list[TensorValue] = []
        """Parameters and buffers that were made inside (`TensorValue.made_as`)."""
        self.leaves_left: list[TensorValue] = []
        """What they were before the program gave them other memory (`leaf.data = y`)."""
        self.rewritten: list[Value] = []
        """What was written to once more."""
        self.rows_asked_for: Frame | None = None
        """The encoder's frame that asked whether it may leave out the ends of rows (`calls/nested_masks.py`)."""
        self.has_rows = False
        """Whether there are such rows now."""
        self.places_are_indices = False
        """Whether a tensor of one place, as a subscript, indexes (`calls/functions_of_scores.py`); elsewhere it is read as a number."""
        self.said_it_compiles = False
        """Whether the program asked, and went the way that is meant for compilers."""
        self.checkpoints: list[tuple[int, list[torch.fx.Node], list[tuple[CellValue, Value]], list[torch.fx.Node]]] = []
        """What was made under checkpoint, each time: how many writes to tensors came before, the nodes, the variables that it read, and
        the operands that eager keeps, which must be the same when it is differentiated."""
        self.changes_operands = False
        """Whether Python is to make one of these another view. The graph ends before that, and must not hold the checkpoint either."""
        self.freed: set[Any] = set()
        """The functions of histories that the program has differentiated and not kept."""
        self.uncounted = 0
        """How many writes there were that torch counts no version for."""
        self.generators: list[GeneratorValue] = []
        self.weak_references: dict[Value, WeakReferenceValue] = {}
        """Those that the program made, by what they are of."""
        self.late_places: dict[Relation, tuple[str, Any, Any] | None] = {}
        """What parts at late places rely on; None where a node asks for it."""
        self.locks: dict[InstanceValue, int] = {}
        """The locks that the program took or gave back, with how much more often each is taken than at the start."""
        self.context_variables: dict[ContextVar, tuple[Value, Value] | None] = {}
        """What the program has set them to, with the tokens; None of one that is as it was."""
        self.warnings: list[tuple[WarningMessage, UserStack]] = []
        """What torch's functions warned of, and where the program called them."""
        self.said: list[tuple[Any, tuple]] = []
        """The calls that say what the program warned of itself or logged, and that put hooks on tensors."""
        self.warning_blocks: tuple[InstanceValue, ...] = ()
        """The blocks that catch warnings and that the program is in (`calls/caught_warnings.py`)."""
        self.read_from: dict[str, tuple[TensorValue, int, int]] = {}
        """Of numbers that only the run knows, the tensors that they were read from, with how often these had been written."""
        self.numbers_read: dict[torch.fx.Node, SymbolicNumber] = {}
        """The last number that was read from each tensor."""
        self.hooked: list[tuple[TensorValue, int]] = []
        """Tensors that get hooks when the graph has run, with how often they had been written."""
        self.kept_gradients: dict[TensorValue, Value] = {}
        """Of those that keep their gradients, and that this graph has made, what they are so far."""
        self.functions_of_results: dict[torch.fx.Node, Value] = {}
        """What the program found as `grad_fn` of what a node gives."""
        self.keys: dict[type, dict[Source, None]] = {}
        self.copied: dict[Source, None] = {}
        """What `copy` has asked the addresses of, to find it again in notes that are made at each call."""
        self.addressed: dict[Source, None] = {}
        """What the program knows the addresses of, as numbers."""
        self.addresses: set[int] = set()
        """These numbers."""
        self.has_address_keys = self.has_number_keys = False
        """Whether addresses that only the run knows, and numbers that may be such, are among the keys of containers."""
        self.number_keys = NumberKeys()
        self.classes: dict[type, dict[str, Value]] = {}
        """The classes that the program made, with what it put into them."""
        self.inference_steps: list[Any] = []
        """Inference modes that the program has entered or left (`calls/inference_mode.py`)."""
        self.has_inference_tensors = False
        """Whether one came from outside."""
        self.devices: tuple[torch.device, ...] = ()
        """Those that the program has entered (`with torch.device("cuda"):`), each until its block ends."""
        self.backward_passes: tuple[Any, ...] = ()
        """The calls of custom functions whose backward passes are followed, as they may be differentiated again, outermost first."""
        self.check_read: Callable[[Value | None, Frame, Any], None] | None = None
        """Told what each instruction gives or leaves on its frame's stack, while what runs later is followed."""
        self.begins_in_inference = torch.is_inference_mode_enabled()
        self.handled: Value = NONE
        self.handled_around: tuple[Value, ...] = ()
        """What the callers of the generators handle that run now, outermost first."""
        self.catchers = self.catchers_of_absence = 0
        self.grad_mode = torch.is_grad_enabled()
        self.count = 0
        self.both_ways = 0
        """How often a tensor that only the run knows has chosen between two masks."""
        self.stop, self.limit = options.stop, options.instruction_limit
        self.statements: list[int] = []
        """The instructions of the region's own code, at which it can break, as they were counted."""
        self.visited: dict[Program, set[int]] = {}
        """The instructions that were interpreted, of each code."""

    # Where the program is

    def user_stack(self) -> UserStack:
        """The frames that users see: those of libraries and ours are left out, unless the region itself is one's."""
        own = [frame for frame in self.frames if frame.is_seen] or self.frames[:1]
        if not own:
            return ()
        last = own[-1]
        return (*(frame.user_frame() for frame in own[:-1]), last.user_frame(self._layer_inside(last)))

    def _layer_inside(self, last: Frame) -> Layer | None:
        """The layer whose library code runs now, called by the innermost frame that users see."""
        if self.frames[-1] is last and last.is_own:
            return None
        inside = itertools.takewhile(lambda frame: frame is not last, reversed(self.frames))
        return layer_of(inside if last.is_own else (*inside, last))

    def place(self) -> Span | None:
        """Of the current instruction, in the innermost frame that users see."""
        stack = self.user_stack()
        return stack[-1].span if stack else None

    def expression(self) -> str:
        """The text of the current instruction, in the innermost frame that users see."""
        stack = self.user_stack()
        return stack[-1].span.text() if stack else ""

    def read(self, source: Source) -> Any:
        return source.read(self.values)

    def look(self, source: Source) -> None:
        """Makes what lies at a place known, as if the program had read it."""
        with suppress(LookupError, Break):
            self.realize(self.outside.realize(self.read(source), source))

    def is_symbolic(self, source: Source) -> bool:
        if self.options.dynamic is False or source in self.options.fixed or isinstance(source, ConstantSource):
            return False  # a constant is known with the name that found it (`math.pi`)
        if source in self.options.symbolic or (source in self.options.results and type(self.read(source)) is float):
            return True
        return self.options.dynamic is True and not self._is_built_in(source)

    def _is_built_in(self, source: Source) -> bool:
        """A module's own numbers (`stride` of a layer, its `config.heads`) are what it is made of, defaults are a function's: they
        vary only where they were seen to."""
        base = getattr(source, "base", None)
        while isinstance(base, Source):
            if isinstance(base, AttributeSource) and base.name in ("__defaults__", "__kwdefaults__"):
                return True
            if isinstance(base.read(self.values), torch.nn.Module):
                return True
            base = getattr(base, "base", None)
        return False

    # The loop

    def run(self, base: int) -> Returned:
        """Interprets until the frame at depth `base` returns or yields; that frame is gone from `frames` afterwards."""
        frames = self.frames
        while True:
            frame = frames[-1]
            try:
                result = self.step(frame)
            except Raised as raised:
                self.unwind(raised, base)
                continue
            if result is None:
                continue
            if result.__class__ is Frame:
                frames.append(result)
            elif result.__class__ is Returned:
                frames.pop()
                if len(frames) == base:
                    return result
                if frame.delivery == "push":
                    frames[-1].push(result.value)
            else:
                frame.push(result)

    def step(self, frame: Frame) -> Any:
        frame.position = position = frame.next
        instruction = frame.program.instructions[position]
        frame.next = position + 1
        self.count += 1
        visited = frame.visited
        if visited is None:
            visited = frame.visited = self.visited.setdefault(frame.program, set())
        visited.add(position)
        if instruction.operation not in SAFE:
            frame.remember(self.journal.mark())
            if len(self.frames) == 1:
                self.statements.append(self.count)
            if self.stop is not None and self.count >= self.stop[0]:
                raise Break(self.stop[1])
            if self.count > self.limit:
                raise Break(LimitReached(f"{self.count:,} instructions", frame.code.co_qualname))
        step = STEPS.get(instruction.operation)
        if step is None:
            raise Break(UnsupportedInstruction(instruction.operation, self.expression()))
        result = step(self, frame, instruction)
        if self.check_read is not None:
            self.check_read(result if isinstance(result, Value) else None, frame, instruction)
        return result

    @contextmanager
    def on_trial(self) -> Iterator[None]:
        """What is tried at the end of a capture does not end where that did, and counts for itself."""
        stop, limit = self.stop, self.limit
        self.stop, self.limit = None, self.count + self.options.instruction_limit
        try:
            yield
        finally:
            self.stop, self.limit = stop, limit

    # Exceptions of the program

    def ends_with(self, raised: Raised) -> ProgramRaises:
        """Why capture ends where nothing catches it."""
        value, words = raised.value, ""
        if isinstance(value, InstanceValue) and len(value.arguments) == 1 and isinstance(value.arguments[0], ConstantValue):
            words = str(value.arguments[0].value) if value.cls.__module__ == "builtins" else ""
        return ProgramRaises(value.python_type.__name__, self.expression(), words)

    def unwind(self, raised: Raised, base: int) -> None:
        """Goes to the handler of the program's exception; raises on where there is none above `base`."""
        if issubclass(raised.value.python_type, StopIteration) and self.is_in_iterator(base):
            raise Break(ForeignValue("StopIteration", self.expression()))
        if not self.is_caught():
            raise Break(self.ends_with(raised)) from None
        while len(self.frames) > base:
            frame = self.frames[-1]
            note_passage(self.journal, raised, frame)
            handler = frame.instruction.handler
            if handler is not None:
                del frame.stack[handler.depth :]
                if handler.push_lasti:
                    frame.push(ConstantValue(frame.position))
                frame.push(raised.value)
                frame.jump(handler.target)
                return
            self.frames.pop()
            if frame.early is not None:  # on the way that it did not go it returns
                raise CaptureAgain(goes_both_ways=False)
            if frame.generator is not None:
                self.journal.set(frame.generator, "finished", True)
                raised = self.leaving_generator(raised)
        raise raised

    def is_in_iterator(self, base: int) -> bool:
        """Whether an iterator in C (`map`) called what raises StopIteration: who iterates takes it for the end, and may go on later."""
        for frame in reversed(self.frames[base:]):
            handler = frame.instruction.handler
            if handler is not None and handler.target.operation != "CALL_INTRINSIC_1":  # around the whole of a generator, from 3.12 on
                return False
            if frame.generator is not None:
                return frame.generator.cls is not GeneratorType
        return False

    def leaving_generator(self, raised: Raised) -> Raised:
        """A generator's own StopIteration would end the loop over it: Python makes it an error."""
        if not issubclass(raised.value.python_type, StopIteration):
            return raised
        error = self.throw(RuntimeError, "generator raised StopIteration")
        error.value.attributes |= {"__cause__": raised.value, "__context__": raised.value}
        return error

    def is_caught(self) -> bool:
        return self.catchers > 0 or any(frame.instruction.handler is not None for frame in self.frames)

    @contextmanager
    def catching(self, *, absence: bool = False) -> Iterator[None]:
        """Says that the caller handles the program's exceptions; with `absence` an AttributeError alone (as `hasattr` does)."""
        depth = len(self.frames)
        self.catchers += 1
        self.catchers_of_absence += absence
        try:
            yield
        except Raised:
            del self.frames[depth:]
            raise
        finally:
            self.catchers -= 1
            self.catchers_of_absence -= absence

    def throw(self, kind: type[BaseException], *arguments: Any) -> Raised:
        """The program's exception, made by the interpreter. Use: `raise machine.throw(KeyError, key)`."""
        value = InstanceValue(kind)
        value.arguments = tuple(a if isinstance(a, Value) else ConstantValue(a) for a in arguments)
        if self.handled_now is not NONE:
            value.attributes["__context__"] = self.handled_now
        return Raised(value)

    @property
    def handled_now(self) -> Value:
        """The exception that is handled: a generator that handles none of its own sees its caller's."""
        return next((each for each in (self.handled, *reversed(self.handled_around)) if each is not NONE), NONE)

    # Calls

    def call_now(self, function: Value, arguments: Sequence[Value], keywords: dict[str, Value] | None = None) -> Value:
        """Calls and runs to the end. A break inside is one at the current instruction."""
        return self.finish(self.call(function, arguments, keywords))

    def call(self, function: Value, arguments: Sequence[Value], keywords: dict[str, Value] | None = None) -> Any:
        """The result, or the frame that computes it."""
        from dynascope.capture.calls.dispatch import call

        return call(self, function, list(arguments), keywords or {})

    def finish(self, result: Any) -> Value:
        """The result itself, of what a handler returned."""
        if result.__class__ is not Frame:
            return result
        base = len(self.frames)
        result.delivery = "nested"
        self.frames.append(result)
        return self.run(base).value

    def enter(self, function: FunctionValue, slots: dict[str, Value]) -> Frame:
        if len(self.frames) >= self.options.depth_limit:
            raise Break(LimitReached(f"{len(self.frames)} calls inside each other", function.name))
        frame = Frame(function, slots)
        frame.began = len(self.graph.graph.nodes), self.count
        return frame

    # Globals

    def load_global(self, frame: Frame, name: str) -> Value | None:
        """The value of a global or builtin name; None where there is none."""
        written = self.global_writes.get((id(frame.globals), name))
        if written is not None:
            return None if written[1] is None else written[1]
        from dynascope.capture.globals import read_global

        return read_global(self, frame, name)

    def global_source(self, frame: Frame, name: str) -> Source:
        from dynascope.capture.globals import source_of_global

        return source_of_global(self, frame, name)

    # Tensors

    def tensor(self, node: torch.fx.Node, example: torch.Tensor, device: torch.device) -> TensorValue:
        self.graph.describe(node, example, device)
        self.assume_protocol(torch.Tensor)
        return TensorValue(node, example, device)

    def assume_protocol(self, cls: type) -> None:
        if cls not in self.tensor_classes:
            self.tensor_classes.add(cls)
            tensor_protocol.assume(cls)

    def note_key(self, value: Value) -> None:
        """An object is a key by its identity: that it is none of the other such keys matters now."""
        if value.source is not None:
            self.keys.setdefault(value.python_type, {})[value.source] = None

    def note_tensor_write(self, tensor: TensorValue) -> None:
        """An input's memory is written by the graph: aliases among the inputs matter now."""
        self.journal.append(self.tensor_writes, tensor)

    # Helpers for handlers

    def realize(self, value: Value) -> Value:
        return value.realize() if value.__class__ in UNSEEN else value

    def known(self, value: Value) -> Value:
        """The value, with a symbolic number fixed to what it is in this call."""
        if value.__class__ in UNSEEN:
            value = value.realize()
        if value.__class__ is ConditionValue:
            raise Break(DataDependentBranch(self.expression(), self.place()))
        return self.outside.specialize(value) if value.__class__ is SymbolicNumber else value

    def object_of(self, value: Value) -> Any:
        """The object that a constant is. What else the program uses in such a place is for Python."""
        known = self.known(value)
        if not isinstance(known, ConstantValue):
            raise Break(ForeignValue(known.python_type.__name__, self.expression()))
        return known.value

    def default_device(self) -> torch.device:
        """Where factories put tensors here."""
        return self.devices[-1] if self.devices else default_device()

    def in_plain_mode(self, action: Callable[[], Any]) -> Any:
        """Outside inference mode, so that meta tensors count their versions."""
        if not torch.is_inference_mode_enabled():
            return action()
        with torch.inference_mode(False), torch.no_grad():
            return action()

    def doings(self) -> tuple[int, ...]:
        """Differs as soon as the program does something that would be done again if the same code ran again."""
        return len(self.graph.graph.nodes), len(self.tensor_writes), len(self.global_writes), len(self.said)

    def write(self, value: Any) -> None:
        """Notes that the program changes a mutable value, so that the change is made outside too."""
        for frame in self.frames:
            if frame.generator is not None and frame.generator.quiet and not is_own_value(frame.generator, value):
                self.journal.set(frame.generator, "quiet", False)
        if isinstance(value, InstanceDictionaryValue):
            value = value.owner
        if isinstance(value, FunctionValue):  # which is made with what it has when it leaves
            return
        if isinstance(value.source, MadeSource):
            raise Break(ForeignValue(value.python_type.__name__, self.expression()))
        if not value.changed:
            self.journal.set(value, "changed", True)
            self.journal.append(self.written, value)
        else:
            self.journal.append(self.rewritten, value)


__all__ = ["STEPS", "GlobalSource", "ItemSource", "Machine", "Returned", "operation"]
