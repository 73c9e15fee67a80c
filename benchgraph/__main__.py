"""`python -m benchgraph`."""

from benchgraph.cli import main

main(prog_name="benchgraph")
