"""leveretctl: noun, verb, and the same options everywhere.

Options that say how to connect and what to print may stand before or after the command. What goes wrong is told on
standard error in a sentence with what to do, and in the exit code (leveret.ctl.terminal.exits); with --json as JSON.
"""

from __future__ import annotations

import asyncio
import errno
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from leveret.channels import DEFAULT_TARGET
from leveret.ctl import (
    bindings,
    cluster,
    connections,
    definitions,
    exchanges,
    federation,
    permissions,
    policies,
    queues,
    shovels,
    status,
    streams,
    top,
    users,
    vhosts,
    wal,
)
from leveret.ctl.messages import delayed, life, publish, redrive, replay, tail
from leveret.ctl.terminal import exits, render
from leveret.ctl.terminal.run import PASSWORD_VARIABLE, options
from leveret.errors import LeveretError

# Newer versions of Typer carry click within them, older ones import it: this is the base of its errors in both.
CommandLineError: type[Any] = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")

app = typer.Typer(
    name="leveretctl",
    help="Look after a Leveret node over gRPC.",
    epilog="Exit codes: " + "; ".join(f"{code} {meaning}" for code, meaning in exits.MEANINGS.items()) + ".",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

for name, group in (
    ("cluster", cluster.app),
    ("node", cluster.node_app),
    ("queue", queues.app),
    ("stream", streams.app),
    ("exchange", exchanges.app),
    ("delayed", delayed.app),
    ("binding", bindings.app),
    ("user", users.app),
    ("vhost", vhosts.app),
    ("permission", permissions.app),
    ("topic-permission", permissions.topic_app),
    ("policy", policies.app),
    ("shovel", shovels.app),
    ("federation", federation.app),
    ("connection", connections.app),
    ("channel", connections.channels_app),
    ("consumer", connections.consumers_app),
    ("definitions", definitions.app),
    ("alarm", status.alarms_app),
    ("log", status.log_app),
    ("wal", wal.app),
):
    app.add_typer(group, name=name)
app.command("status")(status.status)
app.command("publish")(publish.publish)
app.command("tail")(tail.tail)
app.command("redrive")(redrive.redrive)
app.command("replay")(replay.replay)
app.command("life")(life.life)
app.command("top")(top.top)

# The options of `everywhere` below: those that take a value, and those that do not.
WITH_VALUE = frozenset(
    {
        "--node", "--user", "--password", "--vhost", "--timeout",
        "--tls-ca", "--tls-certificate", "--tls-key", "--tls-server-name", "--sort", "--where", "--columns", "--watch",
    }
)  # fmt: skip
WATCH_S_MAX = 86_400.0
TIMEOUT_S_MAX = 31_536_000.0  # a year: no request has more, and no timer can
OUTPUT_FAILURES = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF})
WITHOUT_VALUE = frozenset({"--json", "--all-vhosts", "--reverse"})


@app.callback()
def everywhere(
    node: Annotated[
        str,
        typer.Option(
            envvar="LEVERET_NODE",
            help="The node's gRPC address; several with commas: the first that answers. The port is 5680 if not given.",
        ),
    ] = DEFAULT_TARGET,
    user: Annotated[
        str | None,
        typer.Option(envvar="LEVERET_USER", help="guest; with a certificate, whom it names.", show_default=False),
    ] = None,
    password: Annotated[
        str | None,
        typer.Option(help=f"Shown in the process list: rather set {PASSWORD_VARIABLE}.", show_default=False),
    ] = None,
    vhost: Annotated[str, typer.Option(envvar="LEVERET_VHOST")] = "/",
    all_vhosts: Annotated[bool, typer.Option("--all-vhosts", help="List in all vhosts.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    timeout: Annotated[
        float,
        typer.Option(min=0.001, max=TIMEOUT_S_MAX, help="Seconds for each request; of publishes, without a confirm."),
    ] = 10.0,
    tls_ca: Annotated[
        Path | None, typer.Option(envvar="LEVERET_TLS_CA", help="Speak TLS, and believe this authority (PEM).")
    ] = None,
    tls_certificate: Annotated[
        Path | None,
        typer.Option(envvar="LEVERET_TLS_CERTIFICATE", help="Speak TLS, and show this certificate (PEM)."),
    ] = None,
    tls_key: Annotated[Path | None, typer.Option(envvar="LEVERET_TLS_KEY", help="The certificate's key (PEM).")] = None,
    tls_server_name: Annotated[
        str | None, typer.Option(help="The name in the node's certificate, if --node is another one.")
    ] = None,
    sort: Annotated[str | None, typer.Option(metavar="COLUMN", help="Sort lists by this column.")] = None,
    reverse: Annotated[bool, typer.Option("--reverse", help="Lists the other way round.")] = False,
    where: Annotated[
        list[str] | None,
        typer.Option(metavar="[COLUMN=]TEXT", help="Of lists only what has this text, or this value. May be repeated."),
    ] = None,
    columns: Annotated[str, typer.Option(metavar="COLUMN,...", help="These columns of lists.")] = "",
    watch: Annotated[
        float,
        typer.Option(min=0.0, max=WATCH_S_MAX, metavar="SECONDS", help="Again and again, until Ctrl-C. 0: once."),
    ] = 0.0,
) -> None:
    options.sort, options.reverse, options.where = sort, reverse, where or ()
    options.columns = [name for name in columns.split(",") if name]
    options.watch_s = watch
    options.node, options.user, options.password, options.vhost = node, user, password, vhost
    options.all_vhosts, options.json, options.timeout_s = all_vhosts, as_json, timeout
    options.tls_ca, options.tls_certificate, options.tls_key = tls_ca, tls_certificate, tls_key
    options.tls_server_name = tls_server_name


def hoisted(arguments: Sequence[str]) -> list[str]:
    """The same command line with the options that hold everywhere in front, where the parser looks for them."""
    front: list[str] = []
    rest: list[str] = []
    waiting = iter(arguments)
    for argument in waiting:
        name, equals, _ = argument.partition("=")
        if argument == "--":
            rest += [argument, *waiting]
        elif name in WITHOUT_VALUE or (name in WITH_VALUE and equals):
            front.append(argument)
        elif name in WITH_VALUE:
            front += [argument, *(value for value in [next(waiting, None)] if value is not None)]
        else:
            rest.append(argument)
    return front + rest


def run(arguments: Sequence[str]) -> int:
    """Run one command; returns its exit code."""
    command = typer.main.get_command(app)
    options.watch_s = 0.0
    options.json = "--json" in arguments  # also for what is wrong with the options themselves
    try:
        _check_text(arguments)
        result = command.main(hoisted(arguments), prog_name="leveretctl", standalone_mode=False)
        while options.watch_s:
            time.sleep(options.watch_s)
            render.clear()
            result = command.main(hoisted(arguments), prog_name="leveretctl", standalone_mode=False)
    except CommandLineError as error:
        text = error.format_message()
        # Without text it was a noun without a verb, and its help has been shown.
        return _complain(error, exits.USAGE, text, "See `leveretctl --help`.") if text else exits.USAGE
    except (typer.Abort, KeyboardInterrupt, asyncio.CancelledError):
        return exits.INTERRUPTED
    except (LeveretError, exits.UsageError, exits.ConfigError) as error:
        return _complain(error, exits.code_of(error), str(error), exits.advice(error))
    except BrokenPipeError:
        _discard_output()
        return exits.OK  # whoever read our output has seen enough
    except OSError as error:
        if error.errno not in OUTPUT_FAILURES:
            raise
        _discard_output()
        return _complain(error, exits.OUTPUT, f"the answer cannot be written: {error.strerror or error}", "")
    return result if isinstance(result, int) else exits.OK


def _discard_output() -> None:
    """What is left of it is not tried again when the process ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _check_text(arguments: Sequence[str]) -> None:
    """Names are UTF-8 wherever they go. Raises UsageError."""
    for argument in arguments:
        try:
            argument.encode()
        except UnicodeEncodeError as error:
            raise exits.UsageError(f"{os.fsencode(argument)!r} is not UTF-8") from error


def _complain(error: BaseException, code: int, text: str, advice: str) -> int:
    if options.json:
        sys.stderr.write(json.dumps({"error": type(error).__name__, "text": text, "exit_code": code}) + "\n")
    else:
        sys.stderr.write(f"leveretctl: {render.printable(text)}\n" + (f"{advice}\n" if advice else ""))
    return code


def main() -> None:
    for name in ("stdout", "stderr"):  # None where it was closed
        setattr(sys, name, getattr(sys, name) or Path(os.devnull).open("w"))  # noqa: SIM115
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
