"""Object stores: S3 and compatible stores, Google, Azure, and plain HTTP for reading."""
