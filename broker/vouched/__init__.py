"""Users for whom somebody else vouches: who a token says they are, what its scopes allow, and until when."""
