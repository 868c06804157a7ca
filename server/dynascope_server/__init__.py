"""The language server: turns the engine's report into facts on the user's own lines. Never imports torch."""

VERSION = "0.1.0"
