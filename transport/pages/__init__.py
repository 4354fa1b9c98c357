"""What programs that show pages to a browser share: who comes in, what guards them, how they look.

The coordinator's dashboard and the page on which a device's images are named are built on it.
"""
