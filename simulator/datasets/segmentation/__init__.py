"""Data sets for segmentation: pictures with a class for every pixel.

`samples` says what all of them offer, `masks` what of a mask is shown in which task, and `tasks`
makes a sample of each.
"""
