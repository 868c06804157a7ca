"""C++ for the CPU: one header-free translation unit a graph, GCC vector extensions, straight-line values."""
