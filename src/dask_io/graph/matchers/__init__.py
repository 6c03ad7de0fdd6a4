"""Matchers: one for each kind of graph, all of which find the same `Match`."""
