"""Object stores: S3 and what speaks as it does, Google, Azure, plain HTTP for reading."""
