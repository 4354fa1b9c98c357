"""What crosses the wire: messages, self-validating values, tensors and manifests.

Nothing here opens a connection or imports torch.
"""
