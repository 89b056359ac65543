"""The shipped manifests against both Volcano releases' CRDs, fetched if they are not here."""

import pytest

from infra.versions import VOLCANO, VOLCANO_LOCAL
from tests.volcano_crds import downloaded_crd, problems
from workloads.render import SHIPPED


@pytest.mark.local
@pytest.mark.parametrize("version", [VOLCANO_LOCAL, VOLCANO])
@pytest.mark.parametrize("name", SHIPPED)
def test_volcano_knows_every_field_of_a_shipped_manifest(name: str, version: str) -> None:
    assert problems(SHIPPED[name].job.to_dict(), downloaded_crd(version)) == []
