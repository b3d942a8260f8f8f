"""The command `leveret`: run a node, and look at its files.

Exit codes follow sysexits: 0 ok, 64 usage, 65 damaged data, 66 no such file (or none of ours), 69 unavailable (an address in
use, a directory that another node holds), 70 a fault of ours, 74 the disk failed, 78 configuration.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

import native
from node import config as configuration
from node import logs
from node.config import Config, ConfigError
from node.logs import escaped

EXIT_OK = 0
EXIT_USAGE = 64
EXIT_DATA = 65
EXIT_NO_INPUT = 66
EXIT_UNAVAILABLE = 69
EXIT_CONFIG = 78

STANDARD_ERROR = 2  # the last of the three descriptors that a process begins with

app = typer.Typer(
    help="Leveret, a clustered message broker: AMQP 0-9-1 and gRPC.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
)

wal = typer.Typer(help="Read the log of a node, running or not.", no_args_is_help=True)
app.add_typer(wal, name="wal")

Address = Annotated[list[str] | None, typer.Option(metavar="HOST:PORT", help="May be given more than once.")]


# Newer versions of Typer carry click within them, older ones import it: this is the base of its errors in both.
CommandLineError: type[Any] = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")


def occupy_standard_streams() -> None:
    """Who starts a process may have closed them. Then a file of ours, or a client's socket, would have one of their numbers,
    and what a library says to standard error would go there."""
    while (opened := os.open(os.devnull, os.O_RDWR)) <= STANDARD_ERROR:
        os.set_inheritable(opened, True)
    os.close(opened)


def main() -> None:
    occupy_standard_streams()
    if sys.argv[1:2] == ["serve"]:
        gc.disable()  # modules stay, and the collector would walk over them again and again: node.run enables it
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run one command; returns its exit code."""
    try:
        result = typer.main.get_command(app).main(list(arguments), prog_name="leveret", standalone_mode=False)
    except CommandLineError as error:
        text = error.format_message()
        # Without text no command was given, and the help has been shown.
        typer.echo(f"leveret: {text}\nSee `leveret --help`." if text else "", err=True, nl=bool(text))
        return EXIT_USAGE
    return result if isinstance(result, int) else EXIT_OK


@app.command()
def serve(
    config_file: Annotated[Path | None, typer.Option("--config", help="TOML file; see deploy/leveret.toml.")] = None,
    name: Annotated[str | None, typer.Option(help="Name of this node, unique in its cluster.")] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Where everything durable lies.")] = None,
    amqp: Address = None,
    amqps: Address = None,
    stream: Address = None,
    streams: Address = None,
    grpc: Address = None,
    http: Address = None,
    https: Address = None,
    peer: Annotated[str | None, typer.Option(metavar="HOST:PORT", help="Where it listens for other nodes.")] = None,
    advertise: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Where other nodes reach it, if that is not --peer.")
    ] = None,
    join: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Join the cluster of the node that listens for nodes there."),
    ] = None,
    peers: Annotated[
        list[str] | None,
        typer.Option("--peers", metavar="HOST:PORT", help="All nodes of a new cluster, one each time it is given."),
    ] = None,
    ram: Annotated[bool, typer.Option("--ram", help="Keep what is declared in memory only.")] = False,
    secret_file: Annotated[Path | None, typer.Option(help="A file with the secret that all nodes know.")] = None,
    zone: Annotated[str | None, typer.Option(help="What fails together, such as a machine or a rack.")] = None,
    nodes_on_machine: Annotated[
        int | None, typer.Option(min=1, help="How many nodes share this machine's memory; each takes its part.")
    ] = None,
    definitions: Annotated[
        Path | None, typer.Option(help="Import them at each start: a file, or a folder with *.json files.")
    ] = None,
    log_level: Annotated[str | None, typer.Option(help="debug, info, warning or error.")] = None,
) -> None:
    """Run one node until it is told to stop (SIGTERM or Ctrl-C). Options win over the file."""
    if not __debug__:
        typer.echo("leveret: python -O takes away the checks that keep damage from spreading: run it without", err=True)
        raise typer.Exit(EXIT_CONFIG)
    try:
        config = configuration.load(config_file) if config_file else Config()
        listens = {"amqp": amqp, "amqps": amqps, "stream": stream, "streams": streams, "grpc": grpc, "http": http}
        listens["https"] = https
        config = with_options(config, name, data_dir, log_level, **listens)
        config = with_cluster_options(config, peer, advertise, join, peers, ram, secret_file, zone)
        replace = msgspec.structs.replace
        if nodes_on_machine is not None:
            config = replace(config, memory=replace(config.memory, nodes_on_machine=nodes_on_machine))
        if definitions is not None:
            config = replace(config, definitions=replace(config.definitions, path=str(definitions)))
        configuration.check(config)
    except ConfigError as error:
        typer.echo(f"leveret: {error}", err=True)
        raise typer.Exit(EXIT_CONFIG) from error
    logs.set_up(level=config.logging.level, file=config.logging.file, as_json=config.logging.json)
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


def with_cluster_options(
    config: Config,
    peer: str | None,
    advertise: str | None,
    join: str | None,
    peers: list[str] | None,
    ram: bool,
    secret_file: Path | None,
    zone: str | None,
) -> Config:
    given: dict[str, Any] = {"join": join, "peers": peers and tuple(peers), "zone": zone, "ram": ram or None}
    given["advertise"] = advertise
    if secret_file is not None:
        given |= {"secret_file": str(secret_file), "secret": ""}
    given = {key: value for key, value in given.items() if value is not None}
    replace = msgspec.structs.replace
    config = replace(config, cluster=replace(config.cluster, **given))
    return config if peer is None else replace(config, listen=replace(config.listen, peer=peer))


@app.command()
def cluster(
    nodes: Annotated[int, typer.Option(min=1, max=64, help="How many disk nodes.")] = 3,
    ram_nodes: Annotated[int, typer.Option(min=0, max=64, help="How many RAM nodes beside them.")] = 0,
    data_dir: Annotated[Path, typer.Option(help="Each node has a directory in it.")] = Path("var/cluster"),
    base_port: Annotated[
        int, typer.Option(min=1024, max=64_000, help="Of the first node's AMQP; see the table for the others.")
    ] = 5672,
    host: Annotated[str, typer.Option(help="Where they listen, and others reach them.")] = "127.0.0.1",
    name: Annotated[str, typer.Option(metavar="PREFIX", help="Of the nodes' names: PREFIX1, PREFIX2, ...")] = "n",
    zone: Annotated[
        str, typer.Option(help="Of all of them, as of one machine of several; else each has one of its own.")
    ] = "",
    peers: Annotated[
        list[str] | None,
        typer.Option(
            "--peers", metavar="HOST:PORT", help="One node of each machine of a larger cluster, the same everywhere."
        ),
    ] = None,
    secret_file: Annotated[
        Path | None, typer.Option(help="A file with the secret that all nodes know; else one is made.")
    ] = None,
    config_file: Annotated[Path | None, typer.Option("--config", help="TOML file for all of them.")] = None,
) -> None:
    """Run several nodes on this machine until they are told to stop (SIGTERM or Ctrl-C): a cluster to try, or what a machine
    with many cores adds to one. A later start goes on with their data."""
    from node.commands.local_cluster import run_cluster
    from node.commands.planned_nodes import CannotStart, HostMachine

    founders = tuple(peers or ())
    machine = HostMachine(nodes, ram_nodes, data_dir, base_port, host, name, zone, founders, secret_file, config_file)
    try:
        raise typer.Exit(run_cluster(machine))
    except CannotStart as error:
        typer.echo(f"leveret: {error}", err=True)
        raise typer.Exit(EXIT_UNAVAILABLE) from error


@app.command()
def survive(
    data_dir: Annotated[Path, typer.Option(help="Of the disk node that is left, which must be stopped.")],
    confirm: Annotated[
        str, typer.Option(metavar="NAME", help="The name of the node: do it; without it, only say what would be lost.")
    ] = "",
) -> None:
    """Have a node go on as the only disk node, when a majority of them is lost for good. It says what is lost with them, and
    keeps that in survival.json. Cut short, it may be given again."""
    from broker.catalog.catalog_state import CatalogDamaged
    from node.commands.survival import CannotSurvive, survive
    from storage.errors import DirectoryInUse, StorageError

    try:
        survival = survive(data_dir, confirm=confirm)
    except (CannotSurvive, DirectoryInUse) as error:
        typer.echo(f"leveret: {error}", err=True)
        raise typer.Exit(EXIT_UNAVAILABLE) from error
    except (CatalogDamaged, StorageError) as error:
        typer.echo(f"leveret: {error}; docs/operations.md says what to do", err=True)
        raise typer.Exit(EXIT_DATA) from error
    for sentence in survival.sentences:
        typer.echo(escaped(sentence))
    if survival.done:
        typer.echo(f"done: start the node, and start RAM nodes anew. All that is lost is named in {survival.report}")
    else:
        typer.echo("it is not done yet: to do it, give --confirm with the name of the node")


@app.command()
def doctor(
    paths: Annotated[list[Path] | None, typer.Argument(help="Files of a stopped node, or its data directory.")] = None,
    dump: Annotated[bool, typer.Option(help="Show what each file holds, not only what is wrong with it.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
    leftovers: Annotated[
        Path | None,
        typer.Option(
            "--delete-leftovers",
            metavar="DIR",
            help="Delete what is left in this data directory of classic queues that are declared nowhere. Asks first.",
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before leftovers are deleted.")] = False,
) -> None:
    """Check the files of a stopped node; without files, say how this installation is built."""
    if leftovers is not None:
        clear_leftovers(leftovers, yes)
        return
    if not paths:
        show({"kernels": native.backend(), "python": sys.version.split()[0]}, as_json)
        return
    from node.commands.doctor_command import doctor_rows
    from storage.errors import DirectoryInUse

    findings = 0
    try:
        for row in doctor_rows(paths, dump=dump):
            findings += "finding" in row
            show(row, as_json)
    except DirectoryInUse as error:
        typer.echo(f"leveret: {error}: stop the node first", err=True)
        raise typer.Exit(EXIT_UNAVAILABLE) from error
    except BrokenPipeError:
        raise  # who reads this, such as head, has seen enough
    except OSError as error:
        typer.echo(f"leveret: {error.filename}: {error.strerror}", err=True)
        raise typer.Exit(EXIT_NO_INPUT) from error
    except ValueError as error:
        typer.echo(f"leveret: {error}", err=True)
        raise typer.Exit(EXIT_NO_INPUT) from error
    if findings:
        typer.echo(f"leveret: {findings} findings; docs/operations.md says what to do", err=True)
        raise typer.Exit(EXIT_DATA)
    if not dump and not as_json:
        typer.echo("nothing is wrong")


@wal.command("dump")
def wal_dump(
    path: Annotated[Path, typer.Argument(help="A data directory, an export of one, or one of its files.")],
    follow: Annotated[
        bool, typer.Option(help="Go on with what is written, until it is told to stop (Ctrl-C).")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
) -> None:
    """Show the records of the log, also while the node runs: nothing is locked or changed. Bodies are not shown."""
    from node.commands.wal_dump import dump_rows, wait_for_more
    from storage.errors import StorageError

    damaged = 0
    try:
        for row in dump_rows(path, wait_for_more if follow else None):
            damaged += row.get("finding") == "damage"
            show(row, as_json)
    except KeyboardInterrupt:
        return
    except BrokenPipeError:
        raise  # who reads this, such as head, has seen enough
    except OSError as error:
        typer.echo(f"leveret: {error.filename}: {error.strerror}", err=True)
        raise typer.Exit(EXIT_NO_INPUT) from error
    except (ValueError, StorageError) as error:
        typer.echo(f"leveret: {error}", err=True)
        raise typer.Exit(EXIT_NO_INPUT) from error
    if damaged:
        typer.echo(f"leveret: {damaged} damaged ranges; docs/operations.md says what to do", err=True)
        raise typer.Exit(EXIT_DATA)


def clear_leftovers(directory: Path, yes: bool) -> None:
    from broker.catalog.catalog_state import CatalogDamaged
    from node.commands.leftovers import Changed, NoCatalog, delete_leftovers, find_leftovers
    from storage.errors import DirectoryInUse, StorageError

    try:
        found, sentences = find_leftovers(directory)
        for sentence in sentences:
            typer.echo(escaped(sentence))
        if not found:
            return
        if not yes and not typer.confirm("Delete them?"):
            typer.echo("nothing was deleted")
            return
        delete_leftovers(directory, found)
    except NoCatalog as error:
        typer.echo(f"leveret: {error}", err=True)
        raise typer.Exit(EXIT_NO_INPUT) from error
    except DirectoryInUse as error:
        typer.echo(f"leveret: {error}: stop the node first", err=True)
        raise typer.Exit(EXIT_UNAVAILABLE) from error
    except Changed as error:
        typer.echo(f"leveret: {error}", err=True)
        raise typer.Exit(EXIT_UNAVAILABLE) from error
    except (CatalogDamaged, StorageError) as error:
        typer.echo(f"leveret: {error}; docs/operations.md says what to do", err=True)
        raise typer.Exit(EXIT_DATA) from error
    typer.echo(f"{len(found)} queues' files are deleted")


def show(row: dict[str, Any], as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(row, default=str))
    else:
        typer.echo(escaped("  ".join(f"{key} {value}" for key, value in row.items() if value is not None)))


if __name__ == "__main__":
    main()
