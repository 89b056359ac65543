"""The local environment for real: needs root on Linux, and uses names and ranges of its own."""
