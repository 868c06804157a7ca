"""`dynascope` and `python -m dynascope`. This file, like `__init__.py`, is read by every Python since 2.7: one that is too old says so."""

import sys

if sys.version_info < (3, 11):  # noqa: UP036 (run from a checkout or by an editor, where nobody asks pip)
    from dynascope.unserved_python import main
else:
    from dynascope.command.command_line import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
