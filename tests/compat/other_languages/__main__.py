"""Tries clients of other languages against a broker. `python -m tests.compat.other_languages --amqp 127.0.0.1:5672`

Exit codes: 0 every language asked for passed, 1 one did not, 2 one could not be run because its client is not installed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time

from tests.compat.other_languages.languages import LANGUAGES, Language

TIMEOUT_S = 120.0
PASSED, FAILED, NOT_RUN = "passed", "FAILED", "NOT RUN"


def main() -> int:
    options = parsed(sys.argv[1:])
    host, _, port = options.amqp.rpartition(":")
    outcomes = [(language, tried(language, host, port)) for language in chosen(options.only)]
    results = [outcome for _, outcome in outcomes]
    print(", ".join(f"{results.count(result)} {result}" for result in (PASSED, FAILED, NOT_RUN)))
    if NOT_RUN in results:
        names = ", ".join(language.name for language, outcome in outcomes if outcome == NOT_RUN)
        print(f"nothing is known about {names}: install what is named above, or say with --only what to try")
    if FAILED in results:
        return 1
    return 2 if NOT_RUN in results else 0


def parsed(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.compat.other_languages", description=__doc__)
    parser.add_argument("--amqp", default="127.0.0.1:5672", metavar="HOST:PORT", help="a broker that knows guest/guest")
    parser.add_argument("--only", metavar="LANGUAGE,...", help="of " + ", ".join(each.name for each in LANGUAGES))
    options = parser.parse_args(arguments)
    unknown = set((options.only or "").split(",")) - {each.name for each in LANGUAGES} - {""}
    if unknown:
        parser.error(f"--only names {', '.join(sorted(unknown))}; there are {', '.join(e.name for e in LANGUAGES)}")
    if not options.amqp.rpartition(":")[0] or not options.amqp.rpartition(":")[2].isdigit():
        parser.error(f"--amqp is {options.amqp!r}; it has the form HOST:PORT")
    return options


def chosen(only: str | None) -> list[Language]:
    return [language for language in LANGUAGES if only is None or language.name in only.split(",")]


def tried(language: Language, host: str, port: str) -> str:
    title = f"{language.name} ({language.client})"
    environment = {**os.environ, **language.environment}
    if language.missing(os.environ):
        print(f"{title}: {NOT_RUN}, it is not installed. {language.install}", flush=True)
        return NOT_RUN
    began = time.monotonic()
    try:
        command = [*language.command, host, port]
        run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        failure = f"exit code {run.returncode}\n{run.stdout}{run.stderr}" if run.returncode else ""
    except subprocess.TimeoutExpired:
        failure = f"it did not end within {TIMEOUT_S:.0f} s"
    outcome = FAILED if failure else PASSED
    print(f"{title}: {outcome} after {time.monotonic() - began:.1f} s {failure}".rstrip(), flush=True)
    return outcome


if __name__ == "__main__":
    sys.exit(main())
