"""From a contribution that the coordinator accepts to the model that all devices run."""
