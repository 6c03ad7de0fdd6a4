"""Everything that a group or a file holds."""
