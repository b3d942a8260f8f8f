"""Tokens of OAuth 2: keys of their issuers, and whether a token was signed with one of them. Needs the extra `oauth2`.

What the claims of a token say is read in broker/vouched/.
"""
