"""The only place where bytes move: local files and object stores, counted and published whole."""
