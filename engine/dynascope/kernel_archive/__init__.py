"""Kernels of the cache in one file, for another machine of the same kind: `dynascope cache export`, `import`."""
