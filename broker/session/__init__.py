"""One client's channel, whatever protocol it speaks: declaring, publishing, and what is out."""
