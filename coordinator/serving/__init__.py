"""The running coordinator around its core: what it hears, stores, sends and serves."""
