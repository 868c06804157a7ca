"""The `dynascope` command: run | show | explain | doctor. A subcommand a file; each returns an exit code."""
