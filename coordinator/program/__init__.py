"""Program around the coordinator's core: connections, intake of payloads, workers, snapshots."""
