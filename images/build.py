"""`python -m images.build NAME...`: builds images that are not built yet, parents first.

Each becomes an OCI archive that is named by a hash of everything that went in. Progress goes to
stderr; the last line of stdout is JSON: name -> reference, archive, key.
"""

import argparse
import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console

from images import sources
from images.builder import Builder
from images.catalog import IMAGES, references
from images.plan import plan
from images.progress import Report
from images.sources import BuildError
from infra.names import PROJECT


@contextlib.contextmanager
def lock(cache: Path, console: Console) -> Iterator[None]:
    """One build per cache at a time; the second waits and then finds the first one's archives."""
    with (cache / "lock").open("w", encoding="ascii") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            console.print(f"images  waiting for another build in {cache}", highlight=False)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def default_cache() -> Path:
    """Outside the checkout, so that a fresh clone does not build again; as in the Makefile."""
    own = os.environ.get("CROSSVENDOR_CACHE")
    if own:
        return Path(own).resolve() / "images"
    caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(caches, PROJECT, "images").resolve()


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """The command line's options."""
    parser = argparse.ArgumentParser(prog="python -m images.build", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="images to build; default: all")
    parser.add_argument("--cache", type=Path, default=default_cache(), metavar="DIR")
    parser.add_argument("--context", action="append", default=[], metavar="NAME=PATH")
    parser.add_argument("--ucc-source", type=Path, metavar="PATH", help="a checkout of openucx/ucc")
    parser.add_argument("--list", action="store_true", help="print the catalogue and stop")
    return parser.parse_args(argv)


def build(arguments: argparse.Namespace, console: Console) -> dict[str, dict[str, str]]:
    """Builds what the arguments ask for; name -> reference, archive, key. Raises BuildError."""
    names = arguments.names or list(references())
    for name in names:
        if name not in references():
            msg = f"there is no image {name!r}; the catalogue has {', '.join(references())}."
            raise BuildError(msg)
    given: dict[str, Path] = {}
    for text in arguments.context:
        name, separator, path = text.partition("=")
        if not separator or not path:
            msg = f"--context {text!r} is not NAME=PATH."
            raise BuildError(msg)
        given[name] = Path(path).resolve()
    source = arguments.ucc_source
    ucc = sources.wheel() if source is None else sources.source_tree(source.resolve())
    planned = plan(names, given=given, ucc=ucc)
    cache = arguments.cache.resolve()
    builder = Builder(cache=cache, plan=planned, report=Report(console))
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with lock(cache, console):
            if builder.missing() and os.geteuid() != 0:
                msg = "building images needs root; run it with sudo."
                raise BuildError(msg)
            builder.build()
    except OSError as error:
        msg = f"{error.filename or cache}: {error.strerror}; free disk space or check its rights."
        raise BuildError(msg) from error
    return {
        name: {
            "reference": IMAGES[name].reference,
            "archive": str(builder.archive(name)),
            "key": planned.keys[name],
        }
        for name in names
    }


def _stop(*_: object) -> None:
    # At once: the builds end with this process, and waiting for them is not what was asked for.
    print("images: stopped; the next build goes on from what is finished.", file=sys.stderr)
    os._exit(130)


def main(argv: Sequence[str]) -> int:
    """The command: 0 and JSON, or 2 and one sentence."""
    arguments = parse(argv)
    console = Console(stderr=True)
    if arguments.list:
        for image in IMAGES.values():
            parent = image.parent or "-"
            print(f"{image.name:<28} {parent:<10} {image.folder:<20} {image.reference}")
        return 0
    signal.signal(signal.SIGINT, _stop)
    try:
        built = build(arguments, console)
    except (BuildError, subprocess.TimeoutExpired) as error:
        print(f"images: {error}", file=sys.stderr)
        return 2
    print(json.dumps(built))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
