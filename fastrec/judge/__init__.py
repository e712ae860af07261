"""The judge: bytes of one line in; a record in normal form, or a reject, out."""
