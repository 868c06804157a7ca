"""Which loops share a kernel, in which order kernels run, and where their memory comes from."""
