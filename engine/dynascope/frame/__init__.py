"""CPython frames and bytecode, in and out. Imports no torch."""
