"""From a captured Torch IR graph to forward and backward graphs of functional ATen, and the autograd node around them."""

from dynascope.grad.bridge import bridge, saved_alone
from dynascope.grad.differentiate import differentiate
from dynascope.grad.options import GradOptions
from dynascope.grad.pair import GradPair
from dynascope.grad.reasons import DifferentiationRefused
from dynascope.grad.tangents import Backends

__all__ = ["Backends", "DifferentiationRefused", "GradOptions", "GradPair", "bridge", "differentiate", "saved_alone"]
