"""Carries a plan out: memory, threads, verification."""
