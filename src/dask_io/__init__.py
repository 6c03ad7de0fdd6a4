"""Split, merge and resplit arrays larger than memory, reading and writing every block once."""

__version__ = "0.1.0"
