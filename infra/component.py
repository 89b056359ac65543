"""The base of every Pulumi component here: its type token and its children's options."""

from collections.abc import Sequence

import pulumi

from infra.names import PROJECT


class Component(pulumi.ComponentResource):
    """A component whose children inherit its providers and belong to it."""

    def __init__(self, token: str, name: str, opts: pulumi.ResourceOptions | None) -> None:
        """`token` is `<folder>:<Class>`; a changed one replaces resources, so a test keeps it."""
        super().__init__(f"{PROJECT}:{token}", name, None, opts)

    def _opts(self, *, after: Sequence[pulumi.Resource] = ()) -> pulumi.ResourceOptions:
        """Options of a child that is made after `after`."""
        return pulumi.ResourceOptions(parent=self, depends_on=after)
