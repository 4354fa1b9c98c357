"""What can be learned about pictures: the pictures and the network behind docs/privacy.md."""
