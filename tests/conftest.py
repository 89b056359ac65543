"""The harness of the tests that need nothing: Pulumi without an engine, golden files, isolation."""

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

import pulumi
import pytest
import pytest_socket

from infra.recording import Recording, record

TESTS: Final = Path(__file__).parent
ISOLATED: Final = ("unit", "contracts")
"""Folders whose tests need no network, no environment and no cluster."""

Deploy = Callable[..., Recording]
Golden = Callable[[str, str], None]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="write tests/golden/ instead of comparing"
    )


@pytest.fixture(autouse=True)
def isolation(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No network but this machine's own, no settings from outside, and nothing left behind."""
    if request.path.relative_to(TESTS).parts[0] not in ISOLATED:
        yield
        return
    pytest_socket.socket_allow_hosts(["127.0.0.1", "::1", "localhost"], allow_unix_socket=True)
    for name in os.environ:
        if name.startswith(("AWS_", "PULUMI_", "KUBE", "HELM_")):
            monkeypatch.delenv(name)
    config = pulumi.runtime.config.CONFIG.get()
    root = pulumi.runtime.settings.ROOT.get()
    yield
    assert pulumi.runtime.config.CONFIG.get() == config, "the test left Pulumi configuration behind"
    assert pulumi.runtime.settings.ROOT.get() is root, "the test left a Pulumi stack behind"


@pytest.fixture
def deploy() -> Deploy:
    """Runs a function as the stack's program and returns what it registered."""

    def run(
        program: Callable[[], object],
        *,
        stack: str = "test",
        config: Mapping[str, str] | None = None,
    ) -> Recording:
        return record(program, stack=stack, config=config)

    return run


@pytest.fixture
def golden(pytestconfig: pytest.Config) -> Golden:
    """Compares text with a file in tests/golden/, or writes it with --update-golden."""

    def check(name: str, text: str) -> None:
        file = TESTS / "golden" / name
        if pytestconfig.getoption("--update-golden"):
            file.parent.mkdir(exist_ok=True)
            file.write_text(text, encoding="utf-8")
        expected = file.read_text(encoding="utf-8") if file.exists() else ""
        assert text == expected, (
            f"tests/golden/{name} differs; look at the difference, and if it is meant, "
            "run `pytest --update-golden`"
        )

    return check
