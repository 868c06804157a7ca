"""What torch calls its functions and methods, and what follows from a name: what asks for a value, what is metadata, what writes."""

from __future__ import annotations

from collections.abc import Callable

import torch

# Methods whose result is a Python value out of the tensor's data.
VALUE_METHODS = frozenset({"item", "tolist", "numpy", "__bool__", "__int__", "__float__", "__index__", "__array__"})
VALUE_METHODS |= {"equal", "allclose", "is_nonzero", "data_ptr", "__complex__", "__contains__"}
# Methods that answer from the metadata alone.
METADATA_METHODS = frozenset(
    [
        "size",
        "dim",
        "numel",
        "stride",
        "is_contiguous",
        "element_size",
        "is_floating_point",
        "is_complex",
        "ndimension",
        "nelement",
        "storage_offset",
        "is_signed",
        "is_conj",
        "is_neg",
        "__len__",
        "ndimension",
        "dim_order",
        "is_same_size",
    ]
)
METADATA_FUNCTIONS = frozenset({"numel", "is_floating_point", "is_complex", "is_tensor", "result_type", "is_same_size"})
METADATA_FUNCTIONS |= {"can_cast", "promote_types", "broadcast_shapes", "is_conj", "is_neg"}
# Methods that change what a tensor is, not only what it holds: its value here could not follow.
RESHAPING_IN_PLACE = frozenset(
    [
        "resize_",
        "resize_as_",
        "set_",
        "share_memory_",
        "retain_grad",
        "register_hook",
        "rename_",
        "as_strided_",
        "detach_",
        "pin_memory",
        "storage",
        "storage_type",
        "untyped_storage",
        "register_post_accumulate_grad_hook",
        "apply_",
        "map_",
        "refine_names",
        "align_to",
        "to_sparse",
        "to_mkldnn",
    ]
)
# Functions that write to arguments without counting a version: the arguments' positions and names.
UNDECLARED_WRITES = {"batch_norm": ("running_mean", "running_var"), "instance_norm": ("running_mean", "running_var")}
WRITE_IF = {"batch_norm": ("training", 5, False), "instance_norm": ("use_input_stats", 5, True)}
"""The argument that says whether these write: its name, its place, and what it is where nobody says it."""
METADATA_ATTRIBUTES = frozenset(
    [
        "shape",
        "dtype",
        "ndim",
        "requires_grad",
        "layout",
        "is_leaf",
        "itemsize",
        "nbytes",
        "is_sparse",
        "is_quantized",
        "is_nested",
        "names",
    ]
)
# Attributes that are operations: the method that does the same.
VIEW_ATTRIBUTES: dict[str, tuple[str, Callable[[torch.Tensor], tuple]]] = {
    "T": ("permute", lambda example: tuple(reversed(range(example.dim())))),
    "mT": ("transpose", lambda example: (-2, -1)),
    "H": ("adjoint", lambda example: ()),
    "mH": ("adjoint", lambda example: ()),
    "data": ("detach", lambda example: ()),  # in the graph `.data` itself, which counts its versions alone
}
FACTORIES = frozenset(
    [
        "arange",
        "zeros",
        "ones",
        "full",
        "empty",
        "rand",
        "randn",
        "randint",
        "randperm",
        "tensor",
        "as_tensor",
        "scalar_tensor",
        "eye",
        "linspace",
        "logspace",
        "tril_indices",
        "triu_indices",
        "normal",
        "empty_strided",
        "hann_window",
        "hamming_window",
        "bartlett_window",
        "blackman_window",
        "kaiser_window",
        "cartesian_prod",
        "asarray",
        "range",
        "complex",
        "polar",
        "fftfreq",
        "rfftfreq",
        "fft_fftfreq",
        "fft_rfftfreq",
    ]
)
MOVES = frozenset({"cpu", "cuda"})
"""Methods whose name is a device: a tensor that is there already comes back itself."""
ATTENTION = frozenset({"scaled_dot_product_attention", "multi_head_attention_forward"})
ATTENTION_FLAGS = tuple(
    getattr(torch._C, f"_get_{kernel}_sdp_enabled")
    for kernel in ("flash", "mem_efficient", "math", "cudnn")
    if hasattr(torch._C, f"_get_{kernel}_sdp_enabled")
)
NUMBER_METHODS = frozenset({"item", "tolist", "__int__", "__float__"})
# Operations told a place in the storage, and the position of that argument.
PLACED_IN_STORAGE = {"as_strided": 3, "as_strided_": 3, "as_strided_scatter": 4}
OF_CONTENTS = frozenset({"tensor", "as_tensor", "asarray", "new_tensor", "new", "LongTensor", "FloatTensor"})
"""Make a tensor of the numbers that they are given: torch's own C++ looks at each."""
SUBSCRIPTS = frozenset({"getitem", "setitem"})
OF_SIZES = frozenset({"zeros", "ones", "empty", "full", "rand", "randn"})
OF_NUMBERS = frozenset({"tensor", "as_tensor", "asarray"})
"""torch's functions that make a tensor of the numbers in a list."""
_PLACED = """
    index_add_ index_copy_ index_fill_ index_put_ index_reduce_ masked_scatter_ put_ scatter_ scatter_add_ scatter_reduce_
    addbmm_ addmm_ addmv_ addr_ baddbmm_
"""
PLACED_WRITES = frozenset(_PLACED.split())
"""Write to places of their first operand that another one says, or read their others in an order of their own."""
