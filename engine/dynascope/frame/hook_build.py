"""The C hook's text, and how it becomes a shared object.

begin()            the compiler starts; the caller imports the rest of the engine meanwhile
shared_object()    where it is: carried by the wheel, built before, or built now
"""

from __future__ import annotations

import hashlib
import re
import sys
import sysconfig
from pathlib import Path

from dynascope.native.toolchain import begin_shared_object, build_shared_object

_FOLDER = Path(__file__).parent


def begin() -> None:
    """Start building, if this process has not loaded it yet and nobody has built it."""
    if "dynascope.frame.hook_native" in sys.modules:
        return
    text = source_text()
    if not (_FOLDER / prebuilt_name(text)).exists():
        begin_shared_object(text, language="c", flags=_flags(), name="hook")


def shared_object() -> Path:
    """Raises ToolchainError where it cannot be built."""
    text = source_text()
    prebuilt = _FOLDER / prebuilt_name(text)
    return prebuilt if prebuilt.exists() else build_shared_object(text, language="c", flags=_flags(), name="hook")


def source_text() -> str:
    """hook.c with its parts in their places; the compiler still names the part and its line."""
    lines = []
    for number, line in enumerate((_FOLDER / "hook.c").read_text().splitlines(), 1):
        part = re.fullmatch(r'#include "(\w+\.h)"', line)
        if part:
            lines += [f'#line 1 "{part[1]}"', (_FOLDER / part[1]).read_text(), f'#line {number + 1} "hook.c"']
        else:
            lines.append(line)
    return "\n".join(lines) + "\n"


def prebuilt_name(text: str) -> str:
    """The file name under which a wheel carries the hook, beside this file: of this text, for this interpreter."""
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    return f"hook-{digest}.{sysconfig.get_config_var('SOABI')}.so"


def _flags() -> tuple[str, ...]:
    # -O2 runs a few percent faster and takes the first call of all half a second more.
    # Frame layouts are settled within a minor version; the full version in the key costs one second a year.
    flags = ("-O1", "-fno-strict-aliasing", "-w", f"-I{include_folder()}", f"-DBUILT_FOR={sys.hexversion:#x}")
    return (*flags, "-undefined", "dynamic_lookup") if sys.platform == "darwin" else (*flags, "-ldl")


def include_folder() -> str:
    return sysconfig.get_paths()["include"]
