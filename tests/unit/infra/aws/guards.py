"""What keeps resources from being deleted: options of the engine, which a recording leaves out."""

from collections.abc import Callable
from dataclasses import dataclass

import pulumi

from tests.conftest import Deploy


@dataclass(frozen=True, kw_only=True)
class Guard:
    """One resource's options against deletion."""

    is_protected: bool
    """The engine refuses to delete it."""
    is_retained: bool
    """It stays in the cloud when the stack lets go of it."""


def guards(deploy: Deploy, program: Callable[[], object]) -> dict[str, Guard]:
    """Name -> guard of everything that a program makes."""
    found: dict[str, Guard] = {}

    def note(args: pulumi.ResourceTransformationArgs) -> None:
        found[args.name] = Guard(
            is_protected=bool(args.opts.protect), is_retained=bool(args.opts.retain_on_delete)
        )

    def run() -> None:
        pulumi.runtime.register_stack_transformation(note)
        program()

    deploy(run)
    return found
