"""Real services on loopback, each in processes of its own: an S3-compatible server, and a Dask cluster."""
