"""infra.apply with the real kubectl, the real Helm and the real API server."""

import json
import ssl
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from http import HTTPStatus
from http.client import HTTPSConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from infra.apply import INVENTORY, INVENTORY_NAMESPACE, apply
from infra.manifests import Manifest, Release, Step
from infra.names import LABEL_MANAGED_BY, PROJECT
from infra.tools import Tools

pytestmark = pytest.mark.apiserver

KIND = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.io}
spec:
  group: example.io
  scope: Cluster
  names: {kind: Widget, plural: widgets, singular: widget}
  versions:
    - name: v1
      served: true
      storage: true
      schema:
        openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}
"""
CONFIG = """
apiVersion: v1
kind: ConfigMap
metadata: {name: from-chart, namespace: {{ .Release.Namespace }}}
data: {text: {{ .Values.text | quote }}, removed: {{ .Values.removed | default "null" | quote }}}
"""


@pytest.fixture
def chart(tmp_path: Path) -> Path:
    (tmp_path / "chart" / "templates").mkdir(parents=True)
    files = {
        "Chart.yaml": "{apiVersion: v2, name: chart, version: 0.1.0}",
        "values.yaml": "{text: default, removed: default}",
        "templates/kind.yaml": KIND,
        "templates/config.yaml": CONFIG,
    }
    for name, text in files.items():
        (tmp_path / "chart" / name).write_text(text)
    return tmp_path / "chart"


@pytest.fixture(autouse=True)
def clean(tools: Tools) -> Iterator[None]:
    yield
    apply([], tools, say=print)


def a_map(name: str, **data: str) -> Manifest:
    metadata = {"name": name, "namespace": "default", "labels": {LABEL_MANAGED_BY: PROJECT}}
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
    return Manifest(body=body, is_patch=False)


def a_widget(name: str) -> Manifest:
    metadata = {"name": name, "labels": {LABEL_MANAGED_BY: PROJECT}}
    body = {"apiVersion": "example.io/v1", "kind": "Widget", "metadata": metadata}
    return Manifest(body=body, is_patch=False)


def a_release(chart: Path, **values: Any) -> Release:
    return Release(
        name="r",
        namespace="default",
        chart=str(chart),
        version=None,
        repository=None,
        values=values,
        timeout_seconds=60,
        waits=True,
    )


def data(tools: Tools, name: str) -> dict[str, str] | None:
    text = tools.kubectl("get", "configmap", name, "--ignore-not-found", "--output=json")
    return dict(json.loads(text).get("data", {})) if text else None


def revisions(tools: Tools) -> list[str]:
    text = tools.kubectl(
        "get",
        "secret",
        "--selector=owner=helm",
        "--output=jsonpath={range .items[*]}{.metadata.name}{' '}{end}",
    )
    return sorted(text.split())


def applied(todo: list[Step], tools: Tools) -> list[str]:
    lines: list[str] = []
    apply(todo, tools, say=lines.append)
    return [line.removeprefix("platform: ").partition(" (")[0] for line in lines]


def test_a_kind_can_be_used_right_after_the_release_that_brings_it(
    tools: Tools, chart: Path
) -> None:
    todo: list[Step] = [a_map("a", x="1"), a_release(chart), a_widget("w")]
    assert applied(todo, tools) == [
        "applied 1 manifests: ConfigMap",
        "installed r",
        "applied 1 manifests: Widget",
    ]
    assert data(tools, "a") == {"x": "1"}
    assert tools.kubectl("get", "widget", "w", "--output=name").strip() == "widget.example.io/w"


def test_the_first_watches_of_new_kinds_are_not_broken_off(tools: Tools, chart: Path) -> None:
    # Many at once, as a chart's controllers ask: the API server needs a while to serve a kind.
    plurals = [f"{letter}widgets" for letter in "abcdefghijkl"]
    kinds = [KIND.replace("widget", plural[:-1]).replace("Widget", plural) for plural in plurals]
    (chart / "templates" / "kind.yaml").write_text("---".join(kinds))
    applied([a_release(chart)], tools)
    with ThreadPoolExecutor(len(plurals)) as pool:
        said = list(pool.map(partial(watched, server_of(tools)), plurals))
    assert said == [(HTTPStatus.OK, "")] * len(plurals)


def server_of(tools: Tools) -> str:
    return tools.kubectl("config", "view", "--output=jsonpath={.clusters[0].cluster.server}")


def watched(server: str, plural: str) -> tuple[int, str]:
    """Lists and then watches for a second, as controllers do; kubectl would try again silently."""
    path = f"/apis/example.io/v1/{plural}"
    status, text = asked(server, f"{path}?resourceVersion=0")
    assert status == HTTPStatus.OK
    version = json.loads(text)["metadata"]["resourceVersion"]
    return asked(server, f"{path}?watch=true&timeoutSeconds=1&resourceVersion={version}")


def asked(server: str, path: str) -> tuple[int, str]:
    address = urlsplit(server)
    assert address.hostname
    context = ssl._create_unverified_context()  # noqa: S323 (its certificate is its own)
    connection = HTTPSConnection(address.hostname, address.port, context=context)
    with closing(connection):
        connection.request("GET", path, headers={"Authorization": "Bearer token"})
        response = connection.getresponse()
        return response.status, response.read().decode()


def test_a_second_call_changes_nothing_and_is_quick(tools: Tools, chart: Path) -> None:
    todo: list[Step] = [a_map("a"), a_release(chart), a_widget("w")]
    applied(todo, tools)
    before = revisions(tools)
    start = time.monotonic()
    assert "r is up to date" in applied(todo, tools)
    assert time.monotonic() - start < 5
    assert revisions(tools) == before


def test_a_changed_value_reaches_the_release_and_none_removes_a_default(
    tools: Tools, chart: Path
) -> None:
    applied([a_release(chart)], tools)
    assert data(tools, "from-chart") == {"text": "default", "removed": "default"}
    assert applied([a_release(chart, text="new", removed=None)], tools) == ["installed r"]
    assert data(tools, "from-chart") == {"text": "new", "removed": "null"}


def test_a_changed_template_reaches_the_release(tools: Tools, chart: Path) -> None:
    applied([a_release(chart)], tools)
    template = chart / "templates" / "config.yaml"
    template.write_text(template.read_text().replace("from-chart", "renamed"))
    assert applied([a_release(chart)], tools) == ["installed r"]
    assert data(tools, "from-chart") is None
    assert data(tools, "renamed") is not None


@pytest.mark.parametrize("status", ["pending-install", "pending-upgrade", "failed"])
def test_a_release_that_was_not_finished_is_brought_to_its_end(
    tools: Tools, chart: Path, status: str
) -> None:
    applied([a_release(chart)], tools)
    [secret] = revisions(tools)
    tools.kubectl("label", "secret", secret, f"status={status}", "--overwrite")
    assert applied([a_release(chart)], tools) == ["installed r"]
    assert applied([a_release(chart)], tools) == ["r is up to date"]


def test_what_is_no_longer_made_goes_with_its_kind(tools: Tools, chart: Path) -> None:
    applied([a_map("a"), a_release(chart), a_widget("w")], tools)
    assert applied([a_map("b")], tools) == [
        "applied 1 manifests: ConfigMap",
        "removed Widget w",
        "removed release r",
        "removed ConfigMap a",
    ]
    assert data(tools, "a") is None
    assert data(tools, "b") == {}
    assert revisions(tools) == []


def test_an_object_whose_kind_is_gone_is_forgotten(tools: Tools, chart: Path) -> None:
    applied([a_release(chart), a_widget("w")], tools)
    tools.helm("uninstall", "r", "--wait")
    assert applied([], tools) == ["removed Widget w", "removed release r"]


def test_what_somebody_took_over_stays(tools: Tools) -> None:
    applied([a_map("a")], tools)
    tools.kubectl("label", "configmap", "a", f"{LABEL_MANAGED_BY}=somebody", "--overwrite")
    applied([], tools)
    assert data(tools, "a") is not None
    tools.kubectl("delete", "configmap", "a")


def test_our_fields_win_over_other_managers(tools: Tools) -> None:
    applied([a_map("a", x="1")], tools)
    tools.kubectl("patch", "configmap", "a", '--patch={"data":{"x":"2","y":"3"}}')
    applied([a_map("a", x="1")], tools)
    assert data(tools, "a") == {"x": "1", "y": "3"}


def test_the_inventory_can_be_read_by_people(tools: Tools) -> None:
    applied([a_map("a")], tools)
    text = tools.kubectl("get", "configmap", INVENTORY, f"--namespace={INVENTORY_NAMESPACE}")
    assert INVENTORY in text
