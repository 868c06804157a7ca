"""Calling values: Python functions are entered, torch operations become nodes, known builtins have a meaning here."""
