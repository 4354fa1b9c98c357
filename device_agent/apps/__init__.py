"""Doors for people and programs on this device: HTTP, and the page that names new classes."""
