"""`python -m fleetledger`: the command line."""

from fleetledger.command_line import main

main()
