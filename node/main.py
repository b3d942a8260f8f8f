"""The command `leveret`: run a node, and look at its files.

Exit codes follow sysexits, as behaviour of such tools is: 0 ok, 64 usage, 65 damaged data, 69 unavailable (an address in use, a
directory that another node holds), 70 a fault of ours, 74 the disk failed, 78 configuration.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

import native
from node import config as configuration
from node import logs
from node.config import Config, ConfigError

EXIT_DATA = 65
EXIT_CONFIG = 78

app = typer.Typer(
    help="Leveret, a clustered message broker: AMQP 0-9-1 and gRPC.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
)

Address = Annotated[list[str] | None, typer.Option(metavar="HOST:PORT", help="May be given more than once.")]


def main() -> None:
    app()


@app.command()
def serve(
    config_file: Annotated[Path | None, typer.Option("--config", help="TOML file; see deploy/leveret.toml.")] = None,
    name: Annotated[str | None, typer.Option(help="Name of this node, unique in its cluster.")] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Where everything durable lies.")] = None,
    amqp: Address = None,
    amqps: Address = None,
    grpc: Address = None,
    http: Address = None,
    log_level: Annotated[str | None, typer.Option(help="debug, info, warning or error.")] = None,
) -> None:
    """Run one node until it is told to stop (SIGTERM or Ctrl-C). Options win over the file."""
    try:
        config = configuration.load(config_file) if config_file else Config()
        config = with_options(config, name, data_dir, log_level, amqp=amqp, amqps=amqps, grpc=grpc, http=http)
        configuration.check(config)
    except ConfigError as error:
        typer.echo(f"leveret: {error}", err=True)
        raise typer.Exit(EXIT_CONFIG) from error
    logs.set_up(config.logging)
    from node.run import run_node  # the whole server is loaded only by the command that runs it

    raise typer.Exit(run_node(config))


def with_options(
    config: Config, name: str | None, data_dir: Path | None, log_level: str | None, **addresses: list[str] | None
) -> Config:
    """The configuration with what was given on the command line in place of what the file says."""
    replace = msgspec.structs.replace
    if name is not None:
        config = replace(config, node=replace(config.node, name=name))
    if data_dir is not None:
        config = replace(config, node=replace(config.node, data_dir=str(data_dir)))
    if log_level is not None:
        config = replace(config, logging=replace(config.logging, level=log_level))
    given: dict[str, Any] = {key: tuple(value) for key, value in addresses.items() if value}
    return replace(config, listen=replace(config.listen, **given))


@app.command()
def doctor(
    paths: Annotated[list[Path] | None, typer.Argument(help="Files of a stopped node, or its data directory.")] = None,
    dump: Annotated[bool, typer.Option(help="Show what each file holds, not only what is wrong with it.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
) -> None:
    """Check the files of a stopped node; without files, say how this installation is built."""
    if not paths:
        show({"kernels": native.backend(), "python": sys.version.split()[0]}, as_json)
        return
    from node.examine import examine

    findings = 0
    for row in examine(paths, dump=dump):
        findings += row.get("finding") is not None
        show(row, as_json)
    if findings:
        raise typer.Exit(EXIT_DATA)


def show(row: dict[str, Any], as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(row, default=str))
    else:
        typer.echo("  ".join(f"{key} {value}" for key, value in row.items() if value is not None))


if __name__ == "__main__":
    main()
