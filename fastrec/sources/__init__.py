"""Read input: discover shards, decompress them, split them into lines."""
