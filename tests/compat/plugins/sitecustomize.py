"""Python imports this at start: see compat_redirect for what it is there for."""

import compat_redirect

compat_redirect.install()
