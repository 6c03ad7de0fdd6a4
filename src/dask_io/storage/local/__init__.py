"""Files on local disk."""
