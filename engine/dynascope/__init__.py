"""Dynascope: a compiler for PyTorch programs that can say what it did."""
