"""Local files and object stores. All bytes move through this package, which counts them."""
