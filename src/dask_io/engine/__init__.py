"""Run plans: memory, threads, commits, verification."""
