"""The stand-in; see the README beside this package."""
