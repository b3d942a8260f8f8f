"""The management API's paths: one module for each kind of thing, which adds its routes with what they ask of their caller.

What is declared and the clients lie flat; messages/ and nodes/ have paths about those.

They translate: a request into an operation of the broker (broker/operations/) or of a session, and what that answers into
JSON. What all have in common: front/web/handlers.py, and the folders security/, http/, lists/ and views/ beside this one.
"""
