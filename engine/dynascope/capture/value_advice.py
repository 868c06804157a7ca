"""What to do where something needs a number that only the run knows and that nobody took out in so many words, by what stands there.

advice("chars[token]")   ->  "Which item of `chars` it is, only the run knows: look it up in the caller, or ..."
"""

from __future__ import annotations

import ast


def advice(text: str) -> str:
    try:
        node = ast.parse(text.strip(), mode="eval").body
    except SyntaxError:
        node = None
    match node:
        case ast.JoinedStr() | ast.BinOp(left=ast.Constant(value=str()), op=ast.Mod()) | ast.Call(func=ast.Attribute(attr="format")):
            return (
                "Return the number as well, and make the text in the caller, after the compiled function; what is only told goes behind "
                "`if not torch.compiler.is_compiling():`."
            )
        case ast.Subscript(value=base, slice=ast.Tuple(elts=indices)) if not any(isinstance(each, ast.Slice) for each in indices):
            example = next((index for index in indices if not isinstance(index, ast.Constant)), indices[0])
            return (
                f"Give the tensors that say the place in `{ast.unparse(base)}` a dimension of one element, as in "
                f"`{_operand(example)}.reshape(1)`: then it is a place to gather from and to write to, and no number."
            )
        case ast.Subscript(value=base, slice=index) if not isinstance(index, (ast.Slice, ast.Tuple)):
            return (
                f"Which item of `{ast.unparse(base)}` it is, only the run knows: return `{ast.unparse(index)}` and look the item up in the "
                "caller, or keep the items in a tensor and index it with one."
            )
        case ast.Call(func=function) if isinstance(function, ast.Attribute) and function.attr in STEPS:
            return (
                f"`{ast.unparse(node)}` decides by a number that only the run knows: call it in the caller, after the compiled function; "
                "what is before it can be compiled as it is."
            )
        case ast.Call(func=ast.Name(id="range")):
            return (
                f"How many turns `{ast.unparse(node)}` takes, only the run knows: take the most that there can be and keep what counts "
                "with `torch.where`, or leave the loop to the caller and compile its body."
            )
    return (
        f"What `{text}` needs is known only at run time: keep all elements and a mask of those that count, or leave this part to the "
        "caller and compile what is around it."
    )


STEPS = frozenset({"step", "update", "append", "add", "write", "put"})
"""Methods that are called for what they do."""


def _operand(node: ast.expr) -> str:
    text = ast.unparse(node)
    return text if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript, ast.Call)) else f"({text})"
