"""The exit codes of leveretctl, in one table: those of sysexits.h, so that scripts can tell what to do."""

from __future__ import annotations

from leveret import errors

OK = 0
USAGE = 64
DATA = 65
NO_USER = 67
UNAVAILABLE = 69
SOFTWARE = 70
OUTPUT = 74
TEMPORARY = 75
NO_PERMISSION = 77
CONFIG = 78
INTERRUPTED = 130

# `leveretctl --help` tells them.
MEANINGS = {
    OK: "it is done",
    USAGE: "the command line is wrong",
    DATA: "a value or a name does not fit: it does not exist, or exists otherwise",
    NO_USER: "the node does not know the user, or the password is another",
    UNAVAILABLE: "no node answers there, or it has no such feature",
    SOFTWARE: "a bug, here or in the node",
    OUTPUT: "the answer cannot be written, as on a full disk; what was asked for is done",
    TEMPORARY: "no answer in time, or a limit is reached: later it may work",
    NO_PERMISSION: "the user may not do this",
    CONFIG: "a file that the command line names cannot be used",
    INTERRUPTED: "ended with Ctrl-C",
}

_CODES: dict[type[errors.LeveretError], int] = {
    errors.ConnectionLost: UNAVAILABLE,
    errors.TimedOut: TEMPORARY,
    errors.Unauthenticated: NO_USER,
    errors.AccessRefused: NO_PERMISSION,
    errors.NotAllowed: NO_PERMISSION,
    errors.NotSupported: UNAVAILABLE,
    errors.RequestRefused: DATA,
    errors.ResourceExhausted: TEMPORARY,
    errors.NodeFailed: SOFTWARE,
    errors.NotConfirmed: DATA,
    errors.PublishRefused: TEMPORARY,
    errors.SubscriptionEnded: UNAVAILABLE,
}

_WHAT_TO_DO: dict[type[errors.LeveretError], str] = {
    errors.ConnectionLost: "Is the node running, and is --node its gRPC address? With TLS, give --tls-ca.",
    errors.TimedOut: "Give it longer with --timeout, or look at `leveretctl status`.",
    errors.Unauthenticated: "Give --user, and the password in --password or LEVERET_PASSWORD. guest is local only.",
    errors.AccessRefused: "Use a user with the permission or tag, or have an administrator grant it.",
    errors.NodeFailed: "The node's log says more.",
}


class UsageError(Exception):
    """The command line asks for something that cannot be; the text says which value and what would do."""


class ConfigError(Exception):
    """A file that the command line names cannot be used."""


def code_of(error: BaseException) -> int:
    for kind in type(error).__mro__:
        if kind in _CODES:
            return _CODES[kind]
    if isinstance(error, (UsageError, ConfigError)):
        return USAGE if isinstance(error, UsageError) else CONFIG
    return SOFTWARE


def advice(error: BaseException) -> str:
    """What the person may do about it; empty when the text says it all."""
    return next((_WHAT_TO_DO[kind] for kind in type(error).__mro__ if kind in _WHAT_TO_DO), "")
