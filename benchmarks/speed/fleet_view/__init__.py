"""What the dashboard takes with a thousand devices, and what it takes from the coordinator."""
