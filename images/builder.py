"""Turns a plan into archives: builds what is missing, keeps the newest, survives its failures."""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from images import base, sources
from images.buildah import Buildah, StorageError
from images.catalog import BASE, UCC_ORIGIN, Image, with_parents
from images.plan import Plan
from images.progress import Report, run_in_order
from images.sources import REPOSITORY, BuildError
from infra.names import PROJECT

_NUM_KEYS_KEPT: Final = 2
_GIB: Final = 1 << 30
_FREE_GIB: Final = 5
"""What a cold build of everything needs at its widest."""
_NUM_LAYERS_KEPT: Final = 200
"""A cold build makes about 40. Beyond this all are dropped, which costs one cold build."""


@dataclass(frozen=True, kw_only=True)
class Builder:
    """Turns a plan into archives in one folder."""

    cache: Path
    plan: Plan
    report: Report

    @property
    def buildah(self) -> Buildah:
        """The storage that the layers are kept in."""
        return Buildah(self.cache)

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
            try:
                self._build(missing)
            except StorageError as error:
                self.report.say(f"the layers of earlier builds are damaged; all anew ({error})")
                shutil.rmtree(self.cache / "storage", ignore_errors=True)
                self.buildah.prepare()
                self._build(missing)
        finally:
            self.buildah.sweep()

    def _build(self, images: Sequence[Image]) -> None:
        self.shrink_storage()
        tags = set(self.buildah.created())
        steps: dict[str, Callable[[], str]] = {}
        graph: dict[str, set[str]] = {}
        for image in images:
            if image.is_published and self.archive(image.name).exists():
                continue
            steps[image.name] = self._step(image, tags)
            graph[image.name] = {image.parent} if image.parent is not None else set()
            if UCC_ORIGIN in image.contexts:
                graph[image.name].add(UCC_ORIGIN.name)
        steps[BASE] = lambda: self._ensure_base(tags)
        steps[UCC_ORIGIN.name] = self._fetch_ucc
        run_in_order(graph, steps, self.report)
        self.forget_old()

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

    def forget_old(self) -> None:
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

    def shrink_storage(self) -> None:
        """Drops the layers of all earlier builds when they are too many."""
        storage = self.cache / "storage"
        if sum(1 for _ in storage.glob("*-images/*")) > _NUM_LAYERS_KEPT:
            shutil.rmtree(storage)
