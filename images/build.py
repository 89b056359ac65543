"""`python -m images.build NAME...`: builds images that are not built yet, parents first.

Each becomes an OCI archive that is named by a hash of everything that went in. Progress goes to
stderr; the last line of stdout is JSON: name -> reference, archive, key.
"""

import argparse
import contextlib
import fcntl
import graphlib
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from images import base, sources
from images.buildah import Buildah
from images.catalog import BASE, BASE_REFERENCE, IMAGES, UCC_ORIGIN, Image, references, with_parents
from images.sources import REPOSITORY, BuildError, Ucc
from infra.names import PROJECT

_RECIPE: Final = "1"
"""Part of every key: raised when this file builds the same inputs differently."""
_NUM_KEYS_KEPT: Final = 2
_NUM_AT_ONCE: Final = 2
_GIB: Final = 1 << 30
_FREE_GIB: Final = 5
"""What a cold build of everything needs at its widest."""
_NUM_LAYERS_KEPT: Final = 200
"""A cold build makes about 40. Beyond this all are dropped, which costs one cold build."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is asked for, resolved to files: the same plan gives the same keys."""

    images: tuple[Image, ...]
    """Parents first."""
    ucc: Ucc
    contexts: Mapping[tuple[str, str], Path]
    """(image, context) -> folder, without UCC's."""
    keys: Mapping[str, str]
    """Image or BASE -> hash of everything that goes in."""


def plan(names: Sequence[str], *, given: Mapping[str, Path], ucc: Ucc) -> Plan:
    """Resolves and hashes; builds nothing. Raises BuildError with the image's name."""
    images = with_parents(names)
    contexts: dict[tuple[str, str], Path] = {}
    dpkg = REPOSITORY / "images/scripts"
    keys = {BASE: _hash(BASE_REFERENCE, sources.digest(dpkg, ("dpkg.cfg",)))}
    for image in images:
        parts = [image.reference, image.target or "", sources.digest(REPOSITORY / image.folder, ())]
        parts += [f"{name}={value}" for name, value in sorted(image.arguments.items())]
        if image.parent is not None:
            parts.append(keys[image.parent])
        for context in image.contexts:
            if context is UCC_ORIGIN:
                parts += [ucc.origin, ucc.identity]
                continue
            try:
                folder = sources.folder_of(context, given)
            except BuildError as error:
                msg = f"{image.name}: {error}"
                raise BuildError(msg) from error
            contexts[image.name, context.name] = folder
            parts.append(f"{context.name}={sources.digest(folder, context.files)}")
        keys[image.name] = _hash(*parts)
    return Plan(images=images, ucc=ucc, contexts=contexts, keys=keys)


def _hash(*parts: str) -> str:
    return hashlib.sha256("\0".join((_RECIPE, *parts)).encode()).hexdigest()[:16]


@dataclass(frozen=True, kw_only=True)
class Builder:
    """Turns a plan into archives in one folder."""

    cache: Path
    plan: Plan
    report: "Report"
    buildah: Buildah = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "buildah", Buildah(self.cache))

    def archive(self, name: str) -> Path:
        """Where an image's archive is or will be."""
        return self.cache / f"{name}-{self.plan.keys[name]}.tar"

    def missing(self) -> list[Image]:
        """Images that are wanted and have no archive."""
        return [
            image
            for image in self.plan.images
            if image.is_published and not self.archive(image.name).exists()
        ]

    def build(self) -> None:
        """Builds what is missing, independent images side by side. Raises BuildError."""
        missing = with_parents(image.name for image in self.missing())
        if not missing:
            return
        free = shutil.disk_usage(self.cache).free
        if free < _FREE_GIB * _GIB:
            msg = (
                f"{self.cache} has {free / _GIB:.1f} GiB free; building needs {_FREE_GIB} GiB, "
                "free some or choose another folder with --cache."
            )
            raise BuildError(msg)
        self.buildah.prepare()
        try:
            self._shrink_storage()
            tags = set(self.buildah.created())
            steps: dict[str, Callable[[], str]] = {}
            graph: dict[str, set[str]] = {}
            for image in missing:
                steps[image.name] = self._step(image, tags)
                graph[image.name] = {image.parent} if image.parent is not None else set()
                if UCC_ORIGIN in image.contexts:
                    graph[image.name].add(UCC_ORIGIN.name)
            steps[BASE] = lambda: self._ensure_base(tags)
            steps[UCC_ORIGIN.name] = self._fetch_ucc
            run_in_order(graph, steps, self.report)
            self._forget_old()
        finally:
            self.buildah.sweep()

    def _tag(self, name: str) -> str:
        return f"localhost/{PROJECT}/{name}:{self.plan.keys[name]}"

    def _log(self, name: str) -> Path:
        folder = self.cache / "logs"
        folder.mkdir(exist_ok=True)
        return folder / f"{name}-{self.plan.keys[name]}.log"

    def _ensure_base(self, tags: set[str]) -> str:
        tag, archive, log = self._tag(BASE), self.archive(BASE), self._log(BASE)
        if tag in tags:
            return "cached"
        if archive.exists():
            self.buildah.load(archive, tag, log=log)
            return "cached"
        how = base.make(self.buildah, tag, log=log)
        self.buildah.push(tag, archive, tag, log=log)
        return how

    def _fetch_ucc(self) -> str:
        if self.plan.ucc.source is not None:
            return self.plan.ucc.origin
        sources.download_wheel(self.cache)
        return self.plan.ucc.origin

    def _step(self, image: Image, tags: set[str]) -> Callable[[], str]:
        def step() -> str:
            tag, log = self._tag(image.name), self._log(image.name)
            is_built = tag in tags
            if not is_built:
                self._build_one(image, tag, log)
            if not image.is_published:
                return "cached" if is_built else "built"
            archive = self.archive(image.name)
            self.buildah.push(tag, archive, image.reference, log=log)
            return f"{archive.stat().st_size / 1e6:.0f} MB"

        return step

    def _build_one(self, image: Image, tag: str, log: Path) -> None:
        staged = self.buildah.folder / "tmp" / image.name
        contexts: dict[str, Path] = {}
        for context in image.contexts:
            contexts[context.name] = staged / context.name
            if context is UCC_ORIGIN:
                origin = self.plan.ucc.source or sources.download_wheel(self.cache)
                sources.stage(origin, (), staged / context.name)
            else:
                folder = self.plan.contexts[image.name, context.name]
                sources.stage(folder, context.files, staged / context.name)
        arguments = dict(image.arguments)
        if image.parent is not None:
            arguments["PARENT"] = self._tag(image.parent)
        if UCC_ORIGIN in image.contexts:
            arguments |= {"UCC_ORIGIN": self.plan.ucc.origin, "UCC": self.plan.ucc.version}
        sources.stage(REPOSITORY / image.folder, (), staged / "dockerfile")
        self.buildah.build(
            tag,
            staged / "dockerfile" / "Dockerfile",
            contexts=contexts,
            arguments=arguments,
            target=image.target,
            log=log,
        )
        shutil.rmtree(staged)

    def _forget_old(self) -> None:
        """Keeps the newest keys of each image, and never drops one of this plan."""
        keys = self.plan.keys
        made = self.buildah.created()
        tags_by_name: dict[str, list[str]] = {}
        for tag in sorted(made, key=lambda tag: made[tag], reverse=True):
            tags_by_name.setdefault(tag.rpartition(":")[0], []).append(tag)
        current = {self._tag(name) for name in keys}
        old = [tag for tags in tags_by_name.values() for tag in tags[_NUM_KEYS_KEPT:]]
        self.buildah.remove([tag for tag in old if tag not in current])
        for name, key in keys.items():
            for folder, suffix in ((self.cache, "tar"), (self.cache / "logs", "log")):
                # Names contain dashes, keys do not: worker-* must not match worker-cpu-*.
                files = [
                    path
                    for path in folder.glob(f"{name}-*.{suffix}")
                    if "-" not in path.stem.removeprefix(f"{name}-")
                ]
                files.sort(key=lambda path: path.stat().st_mtime, reverse=True)
                for path in files[_NUM_KEYS_KEPT:]:
                    if path.stem != f"{name}-{key}":
                        path.unlink()

    def _shrink_storage(self) -> None:
        storage = self.cache / "storage"
        if sum(1 for _ in storage.glob("*-images/*")) > _NUM_LAYERS_KEPT:
            shutil.rmtree(storage)


class Report:
    """Says what is done, as short lines; on a terminal also what is being done."""

    def __init__(self, console: Console) -> None:
        self._console = console
        columns = (SpinnerColumn(), TextColumn("images  {task.description}"), TimeElapsedColumn())
        self._progress = Progress(*columns, console=console, transient=True)

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """While open, unfinished steps are shown, where the console is a terminal."""
        if not self._console.is_terminal:
            yield
            return
        with self._progress:
            yield

    def step(self, name: str, action: Callable[[], str]) -> None:
        """Runs one step and says how long it took."""
        task = self._progress.add_task(name)
        start = time.monotonic()
        result = action()
        seconds = time.monotonic() - start
        self._progress.remove_task(task)
        self._console.print(
            f"images  {name:<28} {seconds:5.1f} s  {result}", highlight=False, soft_wrap=True
        )


def run_in_order(
    graph: Mapping[str, set[str]], steps: Mapping[str, Callable[[], str]], report: Report
) -> None:
    """Runs each step after those it needs, a few at once. Raises the first failure."""
    sorter = graphlib.TopologicalSorter(graph)
    sorter.prepare()
    running: dict[Future[None], str] = {}
    with report.running(), ThreadPoolExecutor(_NUM_AT_ONCE) as pool:
        while sorter.is_active():
            for name in sorter.get_ready():
                running[pool.submit(report.step, name, steps[name])] = name
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                name = running.pop(future)
                try:
                    future.result()
                except BuildError as error:
                    pool.shutdown(cancel_futures=True)
                    msg = f"{name}: {error}"
                    raise BuildError(msg) from error
                sorter.done(name)


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
    if (own := os.environ.get("CROSSVENDOR_CACHE")) is not None:
        return Path(own) / "images"
    caches = os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache"))
    return Path(caches) / PROJECT / "images"


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
