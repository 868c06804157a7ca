"""Running torch's meta kernels: sizes and types of results, with nothing of torch's own compiler imported."""
