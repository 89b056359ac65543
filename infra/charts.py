"""What a Helm chart is to this project: where it comes from and which version of it."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Chart:
    """A chart of a repository, or one in a folder."""

    name: str
    """Its name in the repository; without one, its folder, from the repository's root."""
    version: str
    """Of the software that it installs, without a leading `v`."""
    repository: str | None = None
    """None for a chart in a folder, which says its version itself."""
