"""Networks that give every pixel a class: described once, like those for whole pictures.

A body is a trunk, which makes maps of a picture, and a decoder, which makes pixel features of them;
the head scores these features row by row, and its first row is the background. `layers` names what
bodies are made of, `torch_layers` carries it out.
"""
