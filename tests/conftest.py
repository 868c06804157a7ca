"""Shared by every test: which machines can run which tests."""

import shutil

import pytest


def pytest_collection_modifyitems(items):
    for item in items:
        if item.get_closest_marker("gpu") and not _has_cuda():
            item.add_marker(pytest.mark.skip(reason="no CUDA device on this machine; run it on the GPU machine"))
        if item.get_closest_marker("compiler") and not (shutil.which("cc") or shutil.which("gcc")):
            item.add_marker(pytest.mark.skip(reason="no C compiler on this machine"))


def _has_cuda():
    try:
        import torch
    except ImportError:
        return False
    return torch.cuda.is_available()
