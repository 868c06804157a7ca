"""Text to machine code, and the folder that keeps it between runs. Imports no torch."""
