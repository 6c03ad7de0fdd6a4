"""Plans over many workers: parts that processes on any machine can write."""
