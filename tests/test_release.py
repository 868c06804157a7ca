"""What is published names its repository, and its pages have no image or link that only a copy of the tree can follow."""

import json
import re
import shutil
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))
release = pytest.importorskip("release")
ADDRESS = "https://git.example/owner/dynascope"


@pytest.fixture
def published(tmp_path):
    for name in ("README.md", "extension/README.md", "pyproject.toml", "package.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    release.written(tmp_path, ADDRESS, "0123abc")
    return tmp_path


def test_indexes_find_repository_bugs_and_homepage(published):
    urls = tomllib.loads((published / "pyproject.toml").read_text())["project"]["urls"]
    assert urls["Homepage"] == urls["Repository"] == ADDRESS and urls["Issues"] == f"{ADDRESS}/issues"
    manifest = json.loads((published / "package.json").read_text())
    assert (manifest["repository"]["url"], manifest["homepage"]) == (f"{ADDRESS}.git", ADDRESS)
    assert manifest["bugs"] == {"url": f"{ADDRESS}/issues"}


@pytest.mark.parametrize("page", ["README.md", "extension/README.md"])
def test_images_and_links_lead_to_files_of_the_tree(published, page):
    text = (published / page).read_text()
    images = re.findall(rf"!\[[^\]]+\]\({re.escape(ADDRESS)}/raw/0123abc/([^)]+)\)", text)
    links = re.findall(rf"\({re.escape(ADDRESS)}/(?:raw|blob)/0123abc/([^)]+)\)", text)
    assert images and all((ROOT / path).is_file() for path in links)
    assert not release.LINK.search(text)
