"""The addresses of the documents that the server makes: which document, of which program.

    Address("train.py-1a2b3c4d", "k2/layer_norm.cpp")  <->  dynascope:/train.py-1a2b3c4d/k2/layer_norm.cpp

An address is stable: the same file gives the same address after a restart, so an editor's tab stays valid.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from urllib.parse import quote, unquote

SCHEME = "dynascope"
REASONS = "reasons"
EXTENSIONS = {"cpp": ".cpp", "c": ".c", "python": ".py", "triton": ".py", "markdown": ".md"}
LANGUAGES = {".diff": "diff", ".html": "html", ".cpp": "cpp", ".c": "c", ".py": "python", ".md": "markdown"}
SAFE_PART = re.compile(r"[^/\0]+")


@dataclass(frozen=True, slots=True)
class Address:
    owner: str
    """`<file name>-<digest of its path>`, or `reasons`; empty for a document of the server's own."""
    what: str

    @property
    def path(self) -> str:
        return f"{self.owner}/{self.what}" if self.owner else self.what

    @property
    def uri(self) -> str:
        return f"{SCHEME}:/{quote(self.path)}"


def owner_of(path: str) -> str:
    digest = hashlib.sha256(path.encode(errors="surrogateescape")).hexdigest()[:8]
    return f"{path.replace(chr(92), '/').rsplit('/', 1)[-1]}-{digest}"


def reason_address(code: str) -> Address:
    return Address(REASONS, f"{file_stem(code)}.md")


def parse_path(path: str) -> Address | None:
    """The inverse of `Address.path`; None where a part could leave a folder it is written to."""
    parts = path.split("/")
    if any(part in ("", ".", "..") or not SAFE_PART.fullmatch(part) for part in parts):
        return None
    return Address("", parts[0]) if len(parts) == 1 else Address(parts[0], "/".join(parts[1:]))


def parse_uri(uri: str) -> Address | None:
    scheme, _, rest = uri.partition(":")
    return parse_path(unquote(rest).lstrip("/")) if scheme == SCHEME else None


def extension(language: str) -> str:
    return EXTENSIONS.get(language, ".txt")


def language_of(path: str) -> str:
    """An editor's language identifier, by the address's ending."""
    return next((language for ending, language in LANGUAGES.items() if path.endswith(ending)), "plaintext")


def file_stem(name: str) -> str:
    """A name that is safe as part of a path: what is neither letter, digit, `_`, `-` nor `.` becomes `_`."""
    return re.sub(r"[^\w.-]", "_", name).lstrip(".")[:80] or "unnamed"
