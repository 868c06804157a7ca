"""Why a program could not be run, or ended badly."""

from __future__ import annotations

from dynascope.dataclass import dataclass
from dynascope.report.reason import Reason


@dataclass(frozen=True)
class MissingFile(Reason):
    code = "missing-file"
    severity = "error"
    file: str
    usage: str = "run FILE [ARGS]"

    def message(self) -> str:
        return f"There is no file `{self.file}`."

    def remedy(self) -> str:
        return f"Name a Python file: dynascope {self.usage}."


@dataclass(frozen=True)
class IsNotebook(Reason):
    code = "notebook-file"
    severity = "error"
    file: str

    def message(self) -> str:
        return f"`{self.file}` is a notebook, which is no Python program."

    def remedy(self) -> str:
        return (
            "In the notebook: `%load_ext dynascope` once, then `%%dynascope` as the first line of a cell. "
            f"As a program, where it has no magics: `jupyter nbconvert --to script {self.file}`, and name the .py file that it writes."
        )


@dataclass(frozen=True)
class TimedOut(Reason):
    code = "timed-out"
    severity = "error"
    file: str
    seconds: float

    def message(self) -> str:
        return f"`{self.file}` was still running after {self.seconds:g} s and was ended."

    def remedy(self) -> str:
        return "Give it longer (`--timeout`; in an editor the setting `timeout`), or a smaller input."


@dataclass(frozen=True)
class CrashedProgram(Reason):
    code = "crashed-program"
    severity = "error"
    file: str
    signal: str

    def message(self) -> str:
        return f"The interpreter running `{self.file}` was ended by {self.signal}; what is reported is what was known by then."

    def remedy(self) -> str:
        if self.signal == "SIGKILL":
            return "Usually the system does that where memory runs out (its log says so: `dmesg`), or whoever started the program."
        return f"Run it with `python -X faulthandler {self.file}` to see whether it ends so without Dynascope too."


@dataclass(frozen=True)
class ProgramError(Reason):
    code = "program-error"
    severity = "error"
    exception: str
    text: str

    def message(self) -> str:
        """The first line: the program's own traceback has all of them. One that only announces what follows, as of a process that a
        program spawned, is told with the last: what was raised there."""
        first, _, more = self.text.strip().partition("\n")
        rest = f" {more.strip().splitlines()[-1].strip()}" if first.endswith(":") and more.strip() else " ..." if more else ""
        return f"{self.exception}: {first}{rest}" if first else self.exception

    def remedy(self) -> str:
        return "The program itself raised this, as it does without Dynascope; its traceback is in the output."


@dataclass(frozen=True)
class NoSuchBackend(ProgramError):
    """Of a name that was given to us, or that the program gives to `torch.compile`."""

    def remedy(self) -> str:
        return "Name one that there is (`dynascope backends` lists them), or register yours before it is named."


@dataclass(frozen=True)
class RanksDiffer(Reason):
    """Of a program of several processes: a collective that one rank reaches at another time, or never, is waited for."""

    code = "ranks-differ"
    severity = "warning"
    function: str
    first: int
    first_has: str
    other: int
    other_has: str
    apart: str = ""
    """A sentence about what one of them alone has."""

    def message(self) -> str:
        return f"{self._counted()} {self.apart}".strip()

    def _counted(self) -> str:
        if self.first_has == self.other_has:
            both = f"Ranks {self.first} and {self.other} compiled `{self.function}` differently"
            return f"{both}: each {self.other_has}, but of other sizes, lines or guards."
        return f"`{self.function}` is not the same on all ranks: rank {self.first} {self.first_has}; rank {self.other} {self.other_has}."

    def remedy(self) -> str:
        return (
            "Give every rank the same sizes, numbers and branches (pad the last batch, or drop it), or mark what varies with "
            "`dynascope.mark_dynamic`: ranks that compile at different calls wait for each other in collectives."
        )


@dataclass(frozen=True)
class RanksStartedAgain(Reason):
    """Of a program that starts groups of ranks one after the other."""

    code = "ranks-again"
    severity = "note"
    starts: int
    functions: tuple[str, ...]
    """What only later ones compiled."""

    def message(self) -> str:
        names = ", ".join(f"`{name}`" for name in self.functions)
        return f"The program started ranks {self.starts} times; the report shows the first start, and not {names} of later ones."

    def remedy(self) -> str:
        return "Run the part that starts them as a program of its own to see what those ranks compiled."
