"""The rooms at the top of the repository, each imported as `fleetledger.<room>`."""

FLEETLEDGER = "fleetledger"
ROOMS = (
    "coordinator",
    "device_agent",
    "export",
    "learning",
    "methods",
    "schemas",
    "simulator",
    "transport",
)
