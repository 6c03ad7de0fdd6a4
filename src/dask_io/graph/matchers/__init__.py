"""Find reads and stores in Dask graphs."""
