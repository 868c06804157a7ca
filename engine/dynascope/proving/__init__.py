"""Whether an edit is right: the program runs with it, in a process of its own, and is compared with what it was."""
