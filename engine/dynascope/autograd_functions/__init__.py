"""What stands in a graph for a call of a `torch.autograd.Function` of the program: its forward and its backward as graphs.

Capture makes them, the recording of programs looks inside, and they know neither.
"""

from dynascope.autograd_functions.custom_function import CustomFunction

__all__ = ["CustomFunction"]
