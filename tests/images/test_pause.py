"""Pause: one static program that waits, and ends when it is told to."""

import pytest

from tests.images.conftest import Container

pytestmark = pytest.mark.local


def test_nothing_is_in_it_but_the_program(pause: Container) -> None:
    assert pause.look('find "$root" -xdev -type f -printf "%P\\n"') == "pause\n"


def test_it_does_not_run_as_root(pause: Container) -> None:
    assert pause.config["User"] == "65535:65535"


def test_it_waits_until_it_is_told_to_end(pause: Container) -> None:
    words = " ".join(pause.config["Entrypoint"])
    said = pause.look(
        f'chroot "$root" {words} & pid=$!; sleep 0.5; kill -0 $pid && echo waits; '
        'kill -TERM $pid; wait $pid; echo "ended $?"'
    )
    assert said.startswith("waits\nended ")
