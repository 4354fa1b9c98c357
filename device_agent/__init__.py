"""The program on the device: session, outbox, model slots, data sources. Never imports torch."""
