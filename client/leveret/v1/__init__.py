"""Stubs that protoc generates from proto/leveret/v1 (`make proto`). Not edited by hand."""
