"""What the parts of a stack's configuration are built from."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field


class Part(BaseModel):
    """A group of keys: unknown ones are refused, values never change."""

    model_config = ConfigDict(frozen=True, extra="forbid")


Count = Annotated[int, Field(strict=True)]
"""A number in a stack file; `true` and "1" are mistakes, not 1."""

Switch = Annotated[bool, Field(strict=True)]
"""`true` or `false` in a stack file; "yes" and 1 are mistakes."""

DnsLabel = Annotated[str, Field(pattern=r"^[a-z]([-a-z0-9]{0,18}[a-z0-9])?$")]
"""A pool's or the environment's name; short, because node and interface names are built from it."""
