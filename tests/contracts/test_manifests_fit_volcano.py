"""Every job against the CRDs of both Volcano releases, where Go's module cache has them.

The cluster tier runs the same with a download (tests/cluster/test_manifests_fit_volcano.py).
"""

from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from infra.accelerators import Vendor
from infra.versions import VOLCANO, VOLCANO_LOCAL
from tests.volcano_crds import MODULE, cached_crd, problems
from workloads.jobs import allreduce
from workloads.render import SHIPPED


@pytest.fixture(params=[VOLCANO_LOCAL, VOLCANO])
def crd(request: pytest.FixtureRequest) -> Path:
    version: str = request.param
    path = cached_crd(version)
    if path is None:
        pytest.skip(f"needs `go mod download {MODULE}@v{version}`; the cluster tier does that")
    return path


@pytest.mark.parametrize("name", SHIPPED)
def test_volcano_knows_every_field_of_a_shipped_manifest(name: str, crd: Path) -> None:
    assert problems(SHIPPED[name].job.to_dict(), crd) == []


def test_volcano_knows_every_field_of_a_job_with_all_choices_made(crd: Path) -> None:
    job = allreduce(workers={Vendor.NVIDIA: 3, Vendor.AMD: 5}, link_mbits=1000)
    assert problems(job.to_dict(), crd) == []


def _misspell(spec: dict[str, Any]) -> None:
    security = spec["tasks"][0]["template"]["spec"]["containers"][0]["securityContext"]
    security["readOnlyRootFileSystem"] = security.pop("readOnlyRootFilesystem")


def _add_to_the_spec(spec: dict[str, Any]) -> None:
    spec["minAvailables"] = 1


def _make_a_number_text(spec: dict[str, Any]) -> None:
    spec["minAvailable"] = "2"


def _make_text_a_boolean(spec: dict[str, Any]) -> None:
    spec["tasks"][-1]["template"]["spec"]["containers"][0]["env"][0]["value"] = False


def _forget_a_required_field(spec: dict[str, Any]) -> None:
    del spec["tasks"][0]["template"]["spec"]["containers"][0]["name"]


def _go_below_a_minimum(spec: dict[str, Any]) -> None:
    spec["tasks"][0]["replicas"] = -1


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (_misspell, "readOnlyRootFileSystem"),
        (_add_to_the_spec, "minAvailables"),
        (_make_a_number_text, "'2' is not of type 'integer'"),
        (_make_text_a_boolean, "False is not of type 'string'"),
        (_forget_a_required_field, "'name' is a required property"),
        (_go_below_a_minimum, "-1 is less than the minimum"),
    ],
)
def test_a_spoiled_manifest_is_refused(
    spoil: Callable[[dict[str, Any]], None], reason: str, crd: Path
) -> None:
    manifest = deepcopy(SHIPPED["01-allreduce"].job.to_dict())
    spoil(manifest["spec"])
    [problem] = problems(manifest, crd)
    assert reason in problem
