"""The tree as it is published, with the address of its repository: package indexes link to it, and their pages load images from there.

    python release.py https://host/owner/dynascope .build/release        what `make release REPOSITORY=...` does first

The tree itself names no address, because copies of it have others. What is written is the last commit.
"""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
import tarfile
from pathlib import Path

ROOT = Path(__file__).parent
LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!\w+:|#)([^)\s]+)\)")
"""A link to a file of the tree, or an image."""


def main() -> None:
    repository, folder = sys.argv[1].rstrip("/").removesuffix(".git"), Path(sys.argv[2])
    commit = _git("rev-parse", "HEAD").decode().strip()
    folder.mkdir(parents=True)
    with tarfile.open(fileobj=io.BytesIO(_git("archive", commit))) as tree:
        tree.extractall(folder, filter="data")
    written(folder, repository, commit)


def written(folder: Path, repository: str, commit: str) -> None:
    """Every file in which the address stands, in a copy of the tree."""
    for page in ("README.md", "extension/README.md"):
        _edit(folder / page, lambda text: LINK.sub(lambda link: _absolute(link, repository, commit), text))
    _edit(folder / "pyproject.toml", lambda text: text.replace("\n[project.scripts]\n", f"\n{_urls(repository)}\n[project.scripts]\n", 1))
    _edit(folder / "package.json", lambda text: _manifest(text, repository))


def _absolute(link: re.Match[str], repository: str, commit: str) -> str:
    mark, words, path = link.groups()
    return f"{mark}[{words}]({repository}/{'raw' if mark else 'blob'}/{commit}/{path})"


def _urls(repository: str) -> str:
    places = {"Homepage": "", "Repository": "", "Issues": "/issues", "Changelog": "/blob/HEAD/CHANGELOG.md"}
    return "[project.urls]\n" + "".join(f'{name} = "{repository}{place}"\n' for name, place in places.items())


def _manifest(text: str, repository: str) -> str:
    places = {"repository": {"type": "git", "url": f"{repository}.git"}, "bugs": {"url": f"{repository}/issues"}, "homepage": repository}
    return json.dumps({**json.loads(text), **places}, indent=2, ensure_ascii=False) + "\n"


def _edit(file: Path, change) -> None:
    before = file.read_text(encoding="utf-8")
    after = change(before)
    if after == before:
        raise SystemExit(f"release.py: nothing of {file} names a place of the tree any more")
    file.write_text(after, encoding="utf-8")


def _git(*words: str) -> bytes:
    return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True).stdout


if __name__ == "__main__":
    main()
