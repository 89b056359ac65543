"""The catalogue agrees with itself, with the repository and with the vendors' table."""

import tomllib

import pytest

from images.catalog import BASE, BASE_REFERENCE, IMAGES, VERSION, Image, references, with_parents
from infra import versions
from infra.accelerators import ACCELERATORS
from tests.builders import CHECKOUT

ALL = pytest.mark.parametrize("image", IMAGES.values(), ids=list(IMAGES))


@ALL
def test_an_image_has_a_dockerfile(image: Image) -> None:
    assert (CHECKOUT / image.folder / "Dockerfile").is_file()


def test_every_dockerfile_is_in_the_catalogue() -> None:
    found = {
        str(file.parent.relative_to(CHECKOUT)) for file in CHECKOUT.glob("images/**/Dockerfile")
    }
    assert found == {image.folder for image in IMAGES.values()}


@ALL
def test_the_files_that_an_image_takes_from_the_repository_are_there(image: Image) -> None:
    for context in image.contexts:
        if context.path is not None:
            for file in context.files:
                assert (CHECKOUT / context.path / file).is_file()


@ALL
def test_a_dockerfile_copies_from_the_contexts_of_its_entry_and_no_others(image: Image) -> None:
    text = (CHECKOUT / image.folder / "Dockerfile").read_text(encoding="utf-8")
    lines = text.splitlines()
    stages = {
        line.split(" AS ")[1] for line in lines if line.startswith("FROM ") and " AS " in line
    }
    copied = {
        word.removeprefix("--from=")
        for line in lines
        if line.startswith("COPY ")
        for word in line.split()
        if word.startswith("--from=")
    }
    of_the_folder = {
        context.name
        for other in IMAGES.values()
        if other.folder == image.folder
        for context in other.contexts
    }
    assert copied - stages == of_the_folder


@ALL
def test_a_dockerfile_asks_for_every_argument_of_its_entry(image: Image) -> None:
    text = (CHECKOUT / image.folder / "Dockerfile").read_text(encoding="utf-8")
    asked = {line.split()[1].partition("=")[0] for line in text.splitlines() if line[:4] == "ARG "}
    assert set(image.arguments) <= asked


def test_parents_come_before_their_children_and_once() -> None:
    names = [image.name for image in with_parents(["worker-cpu", "launcher"])]
    assert names == ["openmpi", "worker-cpu", "launcher"]


def test_the_base_is_nobodys_entry() -> None:
    assert BASE not in IMAGES
    assert with_parents(["pause"]) == (IMAGES["pause"],)


def test_a_parent_is_an_entry_or_the_base() -> None:
    assert {image.parent for image in IMAGES.values()} <= {*IMAGES, BASE, None}


def test_no_two_images_have_one_reference() -> None:
    assert len({image.reference for image in IMAGES.values()}) == len(IMAGES)


def test_pods_are_not_offered_what_only_images_start_from() -> None:
    assert "openmpi" not in references()
    assert references()["worker-cpu"] == f"localhost/crossvendor/worker-cpu:{VERSION}"


def test_volcanos_references_are_the_charts() -> None:
    assert {
        reference for name, reference in references().items() if name.startswith("volcano-")
    } == {
        f"docker.io/volcanosh/vc-{component}:v{versions.VOLCANO_LOCAL}"
        for component in ("scheduler", "controller-manager", "webhook-manager")
    }


def test_our_tag_is_the_projects_version() -> None:
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["version"] == VERSION


def test_the_base_is_pinned_by_digest() -> None:
    assert BASE_REFERENCE.endswith(f"@{versions.DEBIAN_IMAGE_DIGEST}")
    assert len(versions.DEBIAN_IMAGE_DIGEST) == len("sha256:") + 64


def test_an_image_of_a_vendor_has_the_name_of_the_vendors_task() -> None:
    tasks = {accelerator.vendor: accelerator.task for accelerator in ACCELERATORS.values()}
    for image in IMAGES.values():
        assert image.vendor is None or image.name == tasks[image.vendor]
