"""What each instruction means, a family of instructions a module. Importing this package registers all of them."""

from dynascope.capture.opcodes import (
    calls,
    classes,
    containers,
    control,
    exceptions,
    functions,
    names,
    operators,
    stack,
)

__all__ = ["calls", "classes", "containers", "control", "exceptions", "functions", "names", "operators", "stack"]
