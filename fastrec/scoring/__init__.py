"""Score stored answers by rules: extract a value from a text, clean it, compare it with references.

These functions know nothing of corpora.
"""
