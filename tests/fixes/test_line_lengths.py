"""Lines that a fix made too long are broken as a formatter does, and say the same."""

import ast

import pytest
from dynascope.fixes.line_lengths import fitted

A, B, C = "weights_of_the_first_layer", "weights_of_the_second_layer", "gradient_of_the_loss"
BROKEN = {
    "at the brackets of a call": (
        f"    {A} = torch.where({C} > 0, {B}, 1)\n",
        f"    {A} = torch.where(\n        {C} > 0, {B}, 1\n    )\n",
    ),
    "one argument a line": (
        f"    {A} = torch.where({C}.abs().max() > 0.25, {A} - 0.5 * {C}, {B} * 2)  # so\n",
        f"    {A} = torch.where(\n        {C}.abs().max() > 0.25,\n        {A} - 0.5 * {C},\n        {B} * 2,\n    )  # so\n",
    ),
    "before operators": (
        f"    if {A}.max() > 10 and {B}.max() > 10 and {C}.norm() > 1:\n        pass\n",
        f"    if (\n        {A}.max() > 10\n        and {B}.max() > 10\n        and {C}.norm() > 1\n    ):\n        pass\n",
    ),
    "a sum": (
        f"    return {A}.pow(2).sum() + {B}.pow(2).sum() - {C}.pow(2).sum()\n",
        f"    return (\n        {A}.pow(2).sum()\n        + {B}.pow(2).sum()\n        - {C}.pow(2).sum()\n    )\n",
    ),
    "a condition in a call": (
        f"    y = f({A}.max() > 10 if {B} is not None and {B} > 2 else {C}.min() not in (1, 2))\n",
        f"    y = f(\n        {A}.max() > 10\n        if {B} is not None and {B} > 2\n        else {C}.min() not in (1, 2)\n    )\n",
    ),
    "results": (
        f"    return torch.where({A} > 0, 1, {B}), [{C} for {C} in ({A}, 1)]\n",
        f"    return (\n        torch.where({A} > 0, 1, {B}),\n"
        f"        [\n            {C}\n            for {C} in ({A}, 1)\n        ],\n    )\n",
    ),
    "a text stays one": (
        f"    return '{A} {B} {C} is longer than a line of what a text should be' + {A}\n",
        f"    return (\n        '{A} {B} {C} is longer than a line of what a text should be'\n        + {A}\n    )\n",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_too_long_is_broken(name):
    line, broken = BROKEN[name]
    head = f"def f({A}, {B}, {C}):\n"
    assert fitted(f"{head}    pass\n", head + line) == head + broken
    assert ast.dump(ast.parse(head + line)) == ast.dump(ast.parse(head + broken))


def test_the_texts_own_lines_say_what_is_long():
    own = f"x = 1  # {'a' * 120}\n"
    made = f"y = f({'b' * 50}, {'c' * 60})\n"
    assert fitted(own, own + made) == own + made
    assert fitted("x = 1\n", "x = 1\n" + made) == f"x = 1\ny = f(\n    {'b' * 50},\n    {'c' * 60},\n)\n"
    wide = f"x = 1  # {'a' * 300}\n"
    long = f"y = f({'b' * 90}, {'c' * 90})\n"
    assert max(map(len, fitted(wide, wide + long).splitlines()[1:])) < 140


@pytest.mark.parametrize(
    "line",
    [
        f"x = 1  # {'a' * 100}\n",
        f"assert {A} is {B} is {C} is {A} is {B}, 'words'\n",
        f'x = f"""{A} {B} {C} {A} {B} {C}\n"""\n',
        f"import {A}, {B}, {C}, {A}_again, {B}_again\n",
        f"x = {'a' * 100}\n",
    ],
)
def test_what_cannot_be_broken_stays(line):
    assert fitted("x = 1\n", line) == line


def test_lines_that_were_there_stay():
    line = f"y = f({A}, {B}, {C}, {A}, {B})\n"
    before = f"# {'a' * 88}\n{line}x = 1\n"
    assert fitted(before, f"{before}z = 2\n") == f"{before}z = 2\n"


@pytest.mark.parametrize("step", ["\t", "  "])
def test_it_goes_in_as_the_text_does(step):
    before = f"def f():\n{step}return 1\n"
    made = f"{before}\n\ny = f({'b' * 50}, {'c' * 60})\n"
    assert fitted(before, made).endswith(f"y = f(\n{step}{'b' * 50},\n{step}{'c' * 60},\n)\n")
