"""Edited functions captured again, without running the program: on the values of calls that were kept when it ran."""
