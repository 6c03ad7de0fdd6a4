"""Run Dask programs by plan: replace the reads, rechunks and stores in their graphs."""
