"""Program of the coordinator around its core: connections, storage of payloads, workers, snapshots."""
