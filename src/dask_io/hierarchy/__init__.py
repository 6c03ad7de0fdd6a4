"""Trees: everything in a group or a file."""
