"""Volcano's images, around stand-ins for its programs: what the chart and its init job expect."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from images.build import default_cache
from images.buildah import Buildah
from tests.images.conftest import Container, build_images, open_image

pytestmark = pytest.mark.local

# Written for bash under the name of sh, as Volcano's own is.
SCRIPT = """#!/bin/sh
function say() {
    [[ -x "$(command -v openssl)" && -x "$(command -v kubectl)" ]] && echo "$1"
}
say "tools are there"
"""


@pytest.fixture(scope="module")
def volcano(
    built: object, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Container]]:
    """The three images in a cache of their own, so that they push none out of the real one."""
    assert built is not None
    cache = tmp_path_factory.mktemp("cache")
    for archive in default_cache().glob("base-*.tar"):
        shutil.copy(archive, cache)
    programs = tmp_path_factory.mktemp("toolchain")
    for name in ("scheduler", "controller-manager", "webhook-manager", "kubectl"):
        shutil.copy("/bin/true", programs / name)
        (programs / name).chmod(0o600)
    module = tmp_path_factory.mktemp("module")
    script = module / "installer/dockerfile/webhook-manager/gen-admission-secret.sh"
    script.parent.mkdir(parents=True)
    script.write_text(SCRIPT, encoding="utf-8")
    images = build_images(
        *("volcano-scheduler", "volcano-controller-manager", "volcano-webhook-manager"),
        *("--cache", str(cache)),
        *("--context", f"toolchain={programs}", "--context", f"volcano={module}"),
    )
    buildah = Buildah(cache)
    buildah.prepare()
    yield {
        name: open_image(buildah, f"localhost/test/{name}:1", Path(image["archive"]))
        for name, image in images.items()
    }
    buildah.sweep()


def test_a_program_runs_as_the_charts_user_and_is_alone(volcano: dict[str, Container]) -> None:
    for name in ("volcano-scheduler", "volcano-controller-manager"):
        config = volcano[name].config
        assert config["User"] == "1000:1000"
        assert config["Entrypoint"] == ["/volcano"]
        assert volcano[name].look('find "$root" -type f -printf "%P %m\\n"') == "volcano 755\n"


def test_the_webhooks_init_job_finds_its_script_and_tools(volcano: dict[str, Container]) -> None:
    webhook = volcano["volcano-webhook-manager"]
    assert webhook.config["User"] == "1000:1000"
    assert webhook.config["WorkingDir"] == "/"
    done = webhook.run("cd / && ./gen-admission-secret.sh && sh -c '[[ a == a ]] && echo bash'")
    assert done.stdout == "tools are there\nbash\n", done.stderr


def test_the_webhook_can_make_a_certificate(volcano: dict[str, Container]) -> None:
    done = volcano["volcano-webhook-manager"].run(
        "openssl req -x509 -newkey rsa:2048 -nodes -keyout /tmp/k -subj /CN=x -out /tmp/c && "
        "openssl x509 -in /tmp/c -noout -subject"
    )
    assert done.stdout == "subject=CN=x\n", done.stderr


def test_the_webhooks_files_give_no_more_rights(volcano: dict[str, Container]) -> None:
    look = volcano["volcano-webhook-manager"].look
    assert look('find "$root" -xdev -type f -perm /6000') == ""
