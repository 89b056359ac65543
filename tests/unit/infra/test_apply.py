import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

import infra.apply
from infra.apply import INVENTORY, LABEL_CONTENT, apply, content_hash
from infra.manifests import Manifest, Release, RenderError, Step
from infra.names import ANNOTATION_WAIT_FOR, LABEL_MANAGED_BY, PROJECT
from infra.tools import CommandFailedError, Tools


@dataclass(frozen=True)
class Cluster(Tools):
    """Stands for kubectl and Helm: remembers objects and revisions by name, and every call.

    tests/apiserver holds the same calls to the real ones.
    """

    objects: dict[str, dict[str, Any]] = field(default_factory=dict)
    revisions: dict[str, dict[str, str]] = field(default_factory=dict)
    """Secret -> its labels."""
    calls: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    """What the next `kubectl apply`s of manifests say instead of working."""
    kinds: list[dict[str, Any]] = field(default_factory=list)
    """What every chart's templates render to."""
    created: list[dict[str, Any]] = field(default_factory=list)
    awaited: list[str] = field(default_factory=list)

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """What kubectl would do to the objects."""
        match arguments:
            case ("get", "configmap", *_):
                made = self.objects.get(INVENTORY)
                return str(made["data"]["made"]) if made else ""
            case ("get", "secret", *_):
                lines = [{"name": name, "labels": it} for name, it in self.revisions.items()]
                return "\n".join(map(json.dumps, lines))
            case ("delete", "secret", _, *secrets):
                for secret in secrets:
                    del self.revisions[secret]
            case ("delete", kind, *rest):
                [name] = [text.rpartition("=")[2] for text in rest if "metadata.name=" in text]
                assert f"--selector={LABEL_MANAGED_BY}={PROJECT}" in rest
                self.calls.append(f"delete {kind} {name}")
                self.objects.pop(name, None)
            case ("apply", *_):
                bodies = list(yaml.safe_load_all(stdin or ""))
                names = [body["metadata"]["name"] for body in bodies]
                if names != [INVENTORY]:
                    self.calls.append(f"apply {' '.join(names)}")
                    if self.failures:
                        raise CommandFailedError("kubectl apply", self.failures.pop(0))
                self.objects.update(zip(names, bodies, strict=True))
            case _:
                self._about_kinds(*arguments, stdin=stdin)
        return ""

    def _about_kinds(self, verb: str, *rest: str, stdin: str | None) -> None:
        if verb == "create":
            if self.created:
                raise CommandFailedError("kubectl create", "Error: (AlreadyExists): is there")
            self.created.extend(yaml.safe_load_all(stdin or ""))
        assert verb in {"create", "wait", "get"}
        names = [word for word in rest if not word.startswith("--")]
        self.calls.append(" ".join([verb, *names]))
        self.awaited.extend(word for word in rest if word.startswith("--for="))

    def helm(self, *arguments: str, stdin: str | None = None) -> str:
        """What Helm would do to the revisions."""
        if arguments[0] == "template":
            return yaml.safe_dump_all(self.kinds)
        self.calls.append(f"helm {arguments[0]} {arguments[1]}")
        if arguments[0] == "upgrade":
            pending = [it for it in self.revisions.values() if "pending" in it["status"]]
            if pending:
                raise CommandFailedError("helm", "another operation is in progress")
            [labels] = [text for text in arguments if text.startswith("--labels=")]
            number = str(len(self.revisions) + 1)
            self.revisions[f"v{number}"] = {
                "version": number,
                "status": "deployed",
                LABEL_CONTENT: labels.rpartition("=")[2],
            }
        return ""

    def made(self) -> list[str]:
        """The inventory's names."""
        return [line[-1] for line in json.loads(self.objects[INVENTORY]["data"]["made"])]


def a_manifest(name: str, kind: str = "Queue", *, is_patch: bool = False) -> Manifest:
    body = {"apiVersion": "g.io/v1", "kind": kind, "metadata": {"name": name}}
    return Manifest(body=body, is_patch=is_patch)


def a_release(name: str = "r", **changes: Any) -> Release:
    values: dict[str, Any] = {
        "name": name,
        "namespace": "ns",
        "chart": "c",
        "version": "1.0.0",
        "repository": "https://charts.example",
        "values": {"a": 1},
        "timeout_seconds": 60,
        "waits": True,
    }
    return Release(**{**values, **changes})


def applied(todo: list[Step], cluster: Cluster) -> list[str]:
    """Applies, and returns the calls that changed something."""
    cluster.calls.clear()
    apply(todo, cluster, say=lambda line: None)
    return list(cluster.calls)


def test_steps_are_applied_in_order_with_neighbours_in_one_call() -> None:
    todo: list[Step] = [a_manifest("a"), a_manifest("b"), a_release(), a_manifest("c")]
    assert applied(todo, Cluster()) == ["apply a b", "helm upgrade r", "apply c"]


def test_an_unchanged_release_is_left_alone() -> None:
    cluster = Cluster()
    applied([a_release()], cluster)
    assert applied([a_release()], cluster) == []


@pytest.mark.parametrize("changes", [{"values": {"a": 2}}, {"version": "1.0.1"}])
def test_a_changed_release_is_upgraded(changes: dict[str, Any]) -> None:
    cluster = Cluster()
    applied([a_release()], cluster)
    assert applied([a_release(**changes)], cluster) == ["helm upgrade r"]


def test_a_release_whose_last_revision_failed_is_upgraded_again() -> None:
    cluster = Cluster()
    applied([a_release()], cluster)
    cluster.revisions["v10"] = {"version": "10", "status": "failed", LABEL_CONTENT: "x"}
    assert applied([a_release()], cluster) == ["helm upgrade r"]


@pytest.mark.parametrize("status", ["pending-install", "pending-upgrade"])
def test_a_release_that_was_killed_half_way_is_unlocked(status: str) -> None:
    cluster = Cluster()
    cluster.revisions["v1"] = {"version": "1", "status": status}
    assert applied([a_release()], cluster) == ["helm upgrade r"]


def test_what_the_program_no_longer_makes_is_removed_in_the_reverse_order() -> None:
    cluster = Cluster()
    everything: list[Step] = [a_manifest("a", "Namespace"), a_release(), a_manifest("b")]
    applied(everything, cluster)
    calls = applied([a_manifest("c")], cluster)
    assert calls == [
        "apply c",
        "delete Queue.v1.g.io b",
        "helm uninstall r",
        "delete Namespace.v1.g.io a",
    ]
    assert cluster.made() == ["c"]


def test_what_somebody_else_makes_is_never_removed() -> None:
    cluster = Cluster()
    applied([a_manifest("a"), a_manifest("default", is_patch=True)], cluster)
    assert applied([a_manifest("a")], cluster) == ["apply a"]


def test_a_call_killed_half_way_does_not_forget_what_it_had_made() -> None:
    cluster = Cluster(failures=["boom"])
    with pytest.raises(CommandFailedError):
        applied([a_manifest("a")], cluster)
    assert applied([a_manifest("b")], cluster) == ["apply b", "delete Queue.v1.g.io a"]


@pytest.mark.parametrize(
    "said",
    [
        'Internal error occurred: failed calling webhook "q.volcano.sh": connection refused',
        'resource mapping not found: no matches for kind "Queue" in version "v1"',
        "the server could not find the requested resource",
    ],
)
def test_what_a_release_brings_may_come_a_little_later(
    said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(infra.apply, "RETRY_PAUSE_SECONDS", 0.0)
    cluster = Cluster(failures=[said, said])
    assert applied([a_manifest("a")], cluster) == ["apply a"] * 3


def test_waiting_for_it_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(infra.apply, "RETRY_SECONDS", 0.0)
    cluster = Cluster(failures=['no matches for kind "Queue"'] * 100)
    with pytest.raises(CommandFailedError, match="no matches for kind"):
        applied([a_manifest("a")], cluster)


def test_any_other_refusal_ends_it_at_once() -> None:
    cluster = Cluster(failures=["Queue is invalid"] * 2)
    with pytest.raises(CommandFailedError, match="Queue is invalid"):
        applied([a_manifest("a")], cluster)
    assert len(cluster.failures) == 1


def test_a_missing_chart_is_told_before_anything_changes() -> None:
    cluster = Cluster()
    todo: list[Step] = [a_manifest("a"), a_release(chart="./build/none", repository=None)]
    with pytest.raises(RenderError, match="no chart"):
        applied(todo, cluster)
    assert cluster.objects == {}


def test_each_part_is_told_with_the_seconds_it_took() -> None:
    lines: list[str] = []
    apply([a_manifest("a"), a_release()], Cluster(), say=lines.append)
    assert [line.rpartition(" (")[0] for line in lines] == [
        "platform: applied 1 manifests: Queue",
        "platform: installed r",
    ]
    assert all(line.endswith(" s)") for line in lines)


def test_a_charts_hash_changes_with_its_files_and_their_names(tmp_path: Path) -> None:
    (tmp_path / "templates").mkdir()
    for name in ("Chart.yaml", "templates/a.yaml"):
        (tmp_path / name).write_text("x")
    release = a_release(chart=str(tmp_path), repository=None)
    hashes = [content_hash(release)]
    assert content_hash(release) == hashes[0]
    (tmp_path / "templates/a.yaml").write_text("y")
    hashes.append(content_hash(release))
    (tmp_path / "templates/a.yaml").rename(tmp_path / "templates/b.yaml")
    hashes.append(content_hash(release))
    assert len(set(hashes)) == 3


def test_a_hash_is_a_label_that_kubernetes_accepts() -> None:
    assert content_hash(a_release()).isalnum()
    assert len(content_hash(a_release())) <= 63


def a_kind(plural: str) -> dict[str, Any]:
    return {"kind": "CustomResourceDefinition", "metadata": {"name": f"{plural}.g.io"}}


def test_a_releases_kinds_are_watched_once_before_its_controllers_do() -> None:
    cluster = Cluster(kinds=[a_kind("as"), {"kind": "Deployment"}, a_kind("bs")])
    expected = [
        "create",
        "wait customresourcedefinition/as.g.io customresourcedefinition/bs.g.io",
        "get as.g.io,bs.g.io",
        "helm upgrade r",
    ]
    assert applied([a_release()], cluster) == expected
    assert [body["metadata"]["name"] for body in cluster.created] == ["as.g.io", "bs.g.io"]


def test_helm_finds_the_kinds_as_its_own() -> None:
    cluster = Cluster(kinds=[a_kind("as")])
    applied([a_release("volcano")], cluster)
    [metadata] = [body["metadata"] for body in cluster.created]
    assert metadata["labels"] == {LABEL_MANAGED_BY: "Helm"}
    assert metadata["annotations"] == {
        "meta.helm.sh/release-name": "volcano",
        "meta.helm.sh/release-namespace": "ns",
    }


def test_kinds_that_a_killed_call_made_are_no_obstacle() -> None:
    cluster = Cluster(kinds=[a_kind("as")])
    cluster.created.append({})
    assert applied([a_release()], cluster)[-1] == "helm upgrade r"


def test_an_object_is_waited_for_as_its_annotation_says() -> None:
    waiting = a_manifest("q")
    waiting.body["metadata"]["annotations"] = {ANNOTATION_WAIT_FOR: "jsonpath={.status.s}=Open"}
    cluster = Cluster()
    calls = applied([waiting, a_manifest("b")], cluster)
    assert calls == ["apply q b", "wait Queue.v1.g.io/q"]
    assert cluster.awaited == ["--for=jsonpath={.status.s}=Open"]
