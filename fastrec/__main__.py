"""`python -m fastrec`."""

from fastrec.cli import main

main()
