"""Runs on a cluster: compared with other ways to rechunk, and simulated for many workers."""
