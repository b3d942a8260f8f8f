"""Samples: what this node counts, looked at every five seconds, so that it can be shown how fast it grows and how it was.

shapes      which counts an object has, and how figures that are shown follow from them
rings       counts of one object at several times, in arrays of a fixed size
books       the rings of all objects of one kind
sampler     goes over all objects in slices of the event loop, again and again
ranges      which times somebody asks for (`lengths_age` and the like), and what is shown of them
"""
