"""`python -m fastrec`."""

from fastrec.cli import script

script()
