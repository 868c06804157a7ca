"""Attention whose scores a program changes, or counts, as operators of a graph: never all scores in memory."""
