"""Sort records: keys, sorted runs on disk, cuts between parts, gathering a key range from all runs."""
