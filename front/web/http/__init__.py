"""HTTP itself: sockets and limits (server.py), and what a request brings and an answer is made of.

request.py      what a handler gets, and what it gives back
bodies.py       fields of a body in JSON, each read as what it has to be
multipart.py    a file out of a form
refusals.py     errors as status, error word and reason
compression.py  large answers, for those who can read it
"""
