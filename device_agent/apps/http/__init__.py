"""The active model over HTTP, for applications that are not written in Python."""
