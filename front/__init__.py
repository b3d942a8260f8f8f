"""The protocols that clients speak. A front turns its protocol into calls of broker.session and back, seeing nothing below."""
