"""Record schemas: schema files, Structs, and `sample_hash`."""
