import stat
from pathlib import Path

import pytest
import yaml

import infra.render
from infra.manifests import RenderError, manifests, release_inputs, steps
from infra.render import deploy, main, run_program, stack_file
from infra.tools import Tools
from tests.builders import CHECKOUT, a_stack_file
from tests.conftest import Golden
from tests.recordings import ON_ONE_WORKER, recorded


@ON_ONE_WORKER
@pytest.mark.parametrize("stack", ["local", "dev", "staging", "prod"])
def test_a_stacks_platform_is_the_golden_one(golden: Golden, stack: str) -> None:
    text = manifests(steps(recorded(stack)), release_inputs)
    golden(f"platform-{stack}.yaml", text)


def test_rendering_twice_gives_the_same_text() -> None:
    texts = {manifests(steps(run_program(stack_file("local"))), release_inputs) for _ in range(3)}
    assert len(texts) == 1


@pytest.fixture
def helm(tmp_path: Path) -> str:
    """Stands for Helm: says what it was asked for as YAML."""
    file = tmp_path / "helm"
    file.write_text('#!/bin/sh\necho "kind: Rendered"\necho "arguments: $*"\n')
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    return str(file)


@pytest.fixture
def chart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A repository's root with a chart at the place where the local environment puts it."""
    folder = tmp_path / "build" / "charts" / "volcano"
    folder.mkdir(parents=True)
    (folder / "Chart.yaml").touch()
    monkeypatch.setattr("infra.tools.ROOT", tmp_path)


@pytest.mark.usefixtures("chart")
def test_manifests_go_to_the_named_file(tmp_path: Path, helm: str) -> None:
    output = tmp_path / "new" / "local.yaml"
    assert main(["manifests", "--helm", helm, "--output", str(output)]) == 0
    kinds = [document["kind"] for document in yaml.safe_load_all(output.read_text())]
    assert kinds[0] == "Namespace"
    assert kinds[-2:] == ["Rendered", "Queue"]


@pytest.mark.usefixtures("chart")
def test_manifests_go_to_the_standard_output_by_default(
    helm: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["manifests", "--helm", helm]) == 0
    assert "kind: Queue" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["manifests", "--stack", "none"], "Pulumi.none.yaml does not exist"),
        (["manifests", "--size", "intel=2"], "no node pool 'intel'"),
        (["manifests", "--size", "nvidia=40"], "size 40 is not between"),
        (["apply", "--kubeconfig", "/no/such"], "kubeconfig /no/such does not exist; name"),
        (["deploy", "--kubeconfig", "/no/such"], "kubeconfig /no/such does not exist; name"),
    ],
)
def test_what_cannot_work_is_one_sentence_and_status_2(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    said = capsys.readouterr()
    assert sentence in said.err
    assert said.err.count("\n") == 1
    assert said.out == ""


@pytest.mark.parametrize("size", ["nvidia", "nvidia=", "nvidia=-1", "nvidia=two"])
def test_a_size_that_is_none_is_refused(size: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["manifests", "--size", size])
    assert "is not POOL=N, for example nvidia=2" in capsys.readouterr().err


def test_two_kubeconfigs_are_one_too_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = a_stack_file(tmp_path, kubeconfig="/one")
    monkeypatch.setattr(infra.render, "stack_file", lambda stack: file)
    assert main(["apply", "--kubeconfig", "/two"]) == 2
    assert "the stack file names /one already; leave one" in capsys.readouterr().err


def test_a_stack_files_kubeconfig_is_relative_to_the_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = a_stack_file(tmp_path, kubeconfig="no/such")
    monkeypatch.setattr(infra.render, "stack_file", lambda stack: file)
    monkeypatch.chdir(tmp_path)
    assert main(["apply"]) == 2
    assert f"kubeconfig {CHECKOUT}/no/such does not exist" in capsys.readouterr().err


def test_the_cluster_is_asked_only_after_the_stack_was_read(tmp_path: Path) -> None:
    file = a_stack_file(tmp_path, typo=1)
    with pytest.raises(Exception, match="typo: unknown key"):
        infra.render.apply_stack(file, Tools(kubectl_binary="/no/kubectl"))


def test_without_pulumi_the_program_is_applied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RenderError, match=r"^kubectl get: cannot run kubectl"):
        deploy(a_stack_file(tmp_path, environment="existing"), Tools())


def test_pulumi_deploys_where_it_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = tmp_path / "said"
    pulumi = tmp_path / "pulumi"
    pulumi.write_text(
        '#!/bin/sh\necho "$PULUMI_BACKEND_URL $KUBECONFIG [$PULUMI_CONFIG_PASSPHRASE] $*" '
        f">> {said}\n"
    )
    pulumi.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    state = tmp_path / "state"
    monkeypatch.setattr(infra.render, "PULUMI_STATE", state)
    lines: list[str] = []
    deploy(a_stack_file(tmp_path), Tools(kubeconfig=Path("/k")), say=lines.append)
    select, up = said.read_text().splitlines()
    assert select.startswith(f"file://{state} /k [] stack select --create test ")
    assert up.startswith(f"file://{state} /k [] up --stack test --yes --refresh ")
    assert lines == ["platform: pulumi up --stack test"]


def test_a_failed_pulumi_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pulumi = tmp_path / "pulumi"
    pulumi.write_text('#!/bin/sh\necho "error: no network" >&2\nexit 1\n')
    pulumi.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(infra.render, "PULUMI_STATE", tmp_path / "state")
    with pytest.raises(RenderError, match=r"^pulumi stack select: no network\.$"):
        deploy(a_stack_file(tmp_path), Tools())
