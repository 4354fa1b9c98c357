"""Features of a frozen backbone, on which networks are trained: computed once, kept on the disk.

computing   pictures through ONNX Runtime, a few at a time
reading     of many images: what the cache holds, the rest computed
cache       what may be lost at any time, and is never trusted without its digest
table       its SQLite file
"""
