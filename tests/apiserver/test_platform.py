"""The rendered platform, Volcano's chart included, on the API server's own validation."""

from pathlib import Path

import pytest
import yaml

from infra.environments import ENVIRONMENTS, Environment
from infra.manifests import manifests, steps
from infra.render import run_program, stack_file
from infra.tools import ROOT, Tools

pytestmark = pytest.mark.apiserver


@pytest.fixture(scope="module")
def rendered(tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The local stack as YAML; its namespaces and kinds exist already."""
    chart = ENVIRONMENTS[Environment.LOCAL].volcano.name
    if not (ROOT / chart).exists():
        pytest.skip(f"needs Volcano's chart at {chart}; `make up` puts it there")
    text = manifests(steps(run_program(stack_file("local"))), tools.template)
    folder = tmp_path_factory.mktemp("rendered")
    documents = [document for document in yaml.safe_load_all(text) if document]
    early = [
        document
        for document in documents
        if document["kind"] in ("Namespace", "CustomResourceDefinition")
    ]
    (folder / "early.yaml").write_text(yaml.safe_dump_all(early))
    tools.kubectl("apply", "--server-side", f"--filename={folder}/early.yaml")
    kinds = ["crd", "--all", "--for=condition=Established", "--timeout=60s"]
    tools.kubectl("wait", *kinds)
    (folder / "all.yaml").write_text(text)
    return folder / "all.yaml"


def test_every_object_passes_strict_validation(tools: Tools, rendered: Path) -> None:
    said = tools.kubectl(
        "apply",
        "--server-side",
        "--dry-run=server",
        "--validate=strict",
        f"--filename={rendered}",
    )
    assert "queue.scheduling.volcano.sh/training serverside-applied" in said
    assert said.count("serverside-applied") > 40


def test_a_field_that_does_not_exist_is_refused(tools: Tools, rendered: Path) -> None:
    wrong = rendered.read_text().replace("preemptionPolicy:", "preemtionPolicy:")
    with pytest.raises(Exception, match="kubectl apply"):
        tools.kubectl(
            "apply", "--server-side", "--dry-run=server", "--validate=strict", "-f-", stdin=wrong
        )


def test_volcanos_pods_fit_the_level_of_their_namespace(
    tools: Tools, rendered: Path, tmp_path: Path
) -> None:
    templates = [
        document["spec"]["template"]
        for document in yaml.safe_load_all(rendered.read_text())
        if document and document["kind"] in ("Deployment", "Job")
    ]
    assert len(templates) == 4
    for number, template in enumerate(templates):
        template["spec"].pop("serviceAccount", None)
        template["spec"].pop("serviceAccountName", None)
        template["spec"]["automountServiceAccountToken"] = False
        metadata = {"name": f"pod-{number}", "namespace": "volcano-system"}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}
        file = tmp_path / "pod.yaml"
        file.write_text(yaml.safe_dump(pod))
        # Pods without a service account need one that no controller has made here.
        account = ["serviceaccount", "default", "--namespace=volcano-system"]
        if number == 0:
            tools.kubectl("create", *account)
        tools.kubectl("create", "--dry-run=server", f"--filename={file}")
