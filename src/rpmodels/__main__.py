"""`python -m rpmodels`."""

from rpmodels.cli import main

main()
