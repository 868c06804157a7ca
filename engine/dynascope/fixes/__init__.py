"""Edits that mend breaks, made from a report's findings and the text alone. Whether one is right is proved by `proving`."""
