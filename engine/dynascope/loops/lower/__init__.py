"""ATen graph to loop program: one rule for each operator, a family a file; what has no rule is called as it is.

lower(graph, example_inputs, options) -> LoopProgram
"""

from dynascope.loops.lower.graph import lower

__all__ = ["lower"]
