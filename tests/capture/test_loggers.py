"""Loggers that are switched off break nothing, and are heard as soon as they are switched on."""

import logging

import pytest
import torch
from harness import compiled

logger = logging.getLogger(__name__)


def quiet(x):
    logger.debug("sum %s", x.sum())
    if logger.isEnabledFor(logging.INFO):
        x = x * 3
    logging.getLogger("another.quiet.one").info("shape %s", x.shape)
    return x + 1


@pytest.fixture(autouse=True)
def levels():
    before = logger.level
    yield
    logger.setLevel(before)
    logging.disable(logging.NOTSET)


def test_nothing_is_said_and_nothing_breaks():
    function = compiled(quiet)
    for _ in range(2):
        torch.testing.assert_close(function(torch.ones(3)), quiet(torch.ones(3)))
    assert function.compilation.codes == [] and len(function.graphs) == 1


def test_a_logger_that_is_switched_on_is_heard(caplog):
    function = compiled(quiet)
    x = torch.ones(3)
    function(x)
    logger.setLevel(logging.DEBUG)
    torch.testing.assert_close(function(x), x * 3 + 1)
    assert [record.getMessage() for record in caplog.records] == ["sum tensor(3.)"]
    logging.disable(logging.CRITICAL)
    torch.testing.assert_close(function(x), x + 1)
    logging.disable(logging.NOTSET)
    logger.setLevel(logging.WARNING)
    torch.testing.assert_close(function(x), x + 1)
    assert len(caplog.records) == 1
