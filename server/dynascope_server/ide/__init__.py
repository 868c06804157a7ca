"""Report and text in, editor facts out: pure functions, no LSP types, no input or output."""
