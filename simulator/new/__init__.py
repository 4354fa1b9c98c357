"""`fleetledger new`: a small package of one's own that runs at once."""
