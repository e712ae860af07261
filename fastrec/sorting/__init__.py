"""Sort records: keys, runs, cuts between parts, gathering a key range from all runs."""
