"""fastrec: from piles of compressed JSONL evaluation records to one clean, sorted, comparable corpus."""

__version__ = "0.1.0"
