import stat
from pathlib import Path

import pytest

from infra.manifests import Release, RenderError
from infra.tools import ROOT, CommandFailedError, Tools, chart_arguments, run


def a_release(**changes: object) -> Release:
    values: dict[str, object] = {
        "name": "r",
        "namespace": "ns",
        "chart": "./build/no-such-chart",
        "version": None,
        "repository": None,
        "values": {},
        "timeout_seconds": 60,
        "waits": True,
    }
    return Release(**{**values, **changes})  # type: ignore[arg-type]


def a_binary(folder: Path, script: str) -> str:
    file = folder / "tool"
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    return str(file)


def test_a_command_gets_its_input_and_returns_its_output() -> None:
    assert run(["cat"], what="cat", stdin="text") == "text"


@pytest.mark.parametrize(
    ("stderr", "sentence"),
    [
        ("W1121 warning\nError: it broke", "x: it broke."),
        ("error: no such thing.", "x: no such thing."),
        ("", "x: it said nothing."),
    ],
)
def test_a_failure_is_one_sentence_with_what_was_said_last(
    tmp_path: Path, stderr: str, sentence: str
) -> None:
    (tmp_path / "said").write_text(stderr)
    with pytest.raises(CommandFailedError) as raised:
        run([a_binary(tmp_path, f"cat {tmp_path}/said >&2; exit 3")], what="x")
    assert str(raised.value) == sentence
    assert raised.value.stderr == stderr


def test_a_missing_binary_is_named_with_the_remedy() -> None:
    with pytest.raises(RenderError) as raised:
        Tools(kubectl_binary="/no/kubectl").kubectl("get", "pods")
    assert str(raised.value) == (
        "kubectl get: cannot run /no/kubectl: No such file or directory; "
        "install it or name its path."
    )


def test_both_tools_act_on_the_named_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", "/another")
    tool = a_binary(tmp_path, 'printf "%s" "$KUBECONFIG $*"')
    named = Tools(kubectl_binary=tool, helm_binary=tool, kubeconfig=Path("/named"))
    assert named.kubectl("get", "x") == "/named get x"
    assert named.helm("list", "x") == "/named list x"
    ambient = Tools(kubectl_binary=tool)
    assert ambient.kubectl("get", "x") == "/another get x"


def test_commands_run_at_the_root_of_the_repository_wherever_one_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["pwd"], what="pwd").strip() == str(ROOT)


def test_a_chart_of_a_repository_is_asked_for_by_version() -> None:
    release = a_release(chart="c", version="1.0.0", repository="https://charts.example")
    assert chart_arguments(release) == [
        "c",
        "--repo",
        "https://charts.example",
        "--version",
        "1.0.0",
    ]


def test_a_chart_in_a_folder_is_followed_through_links(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "Chart.yaml").touch()
    (tmp_path / "link").symlink_to("real")
    release = a_release(chart=str(tmp_path / "link"))
    assert chart_arguments(release) == [str(tmp_path / "real")]


def test_a_missing_chart_is_told_with_what_makes_it() -> None:
    with pytest.raises(RenderError, match=r"no chart at \./build/no-such-chart; .*`make up`"):
        chart_arguments(a_release())


def test_a_template_gets_its_values_and_includes_resource_kinds(tmp_path: Path) -> None:
    tool = a_binary(tmp_path, 'printf "%s\n" "$@"; cat')
    release = a_release(
        chart="c", version="1.0.0", repository="https://charts.example", values={"a": None}
    )
    said = Tools(helm_binary=tool).template(release).splitlines()
    assert said[:3] == ["template", "r", "c"]
    assert "--include-crds" in said
    assert "--namespace=ns" in said
    assert said[-1] == "a: null"
