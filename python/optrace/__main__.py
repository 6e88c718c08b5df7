"""`python -m optrace` is the command `optrace`."""
from ._command import main

main()
