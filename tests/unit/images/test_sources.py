"""Contexts: what is staged is what is hashed, and what is missing is said."""

import subprocess
from pathlib import Path

import pytest

from images import sources
from images.catalog import Context
from images.sources import BuildError
from infra import versions


def write(folder: Path, **contents: str) -> Path:
    folder.mkdir(exist_ok=True)
    for name, content in contents.items():
        (folder / name).write_text(content, encoding="utf-8")
    return folder


def ucc_tree(folder: Path) -> Path:
    (folder / "src/ucc/api").mkdir(parents=True)
    return write(folder, **{"configure.ac": "AC_INIT\n"})


def test_a_hash_changes_with_content_name_and_mode(tmp_path: Path) -> None:
    folder = write(tmp_path / "a", one="1", two="2")
    before = sources.digest(folder, ())
    seen = {before}
    (folder / "one").write_text("other", encoding="utf-8")
    seen.add(sources.digest(folder, ()))
    (folder / "one").rename(folder / "three")
    seen.add(sources.digest(folder, ()))
    (folder / "three").chmod(0o755)
    seen.add(sources.digest(folder, ()))
    assert len(seen) == 4


def test_a_hash_does_not_change_with_time_and_place(tmp_path: Path) -> None:
    first = write(tmp_path / "a", one="1")
    second = write(tmp_path / "b", one="1")
    assert sources.digest(first, ()) == sources.digest(second, ())


def test_a_hash_sees_only_the_named_files(tmp_path: Path) -> None:
    folder = write(tmp_path / "a", one="1", two="2")
    before = sources.digest(folder, ("one",))
    (folder / "two").write_text("other", encoding="utf-8")
    assert sources.digest(folder, ("one",)) == before


def test_what_a_checkout_collects_is_neither_hashed_nor_staged(tmp_path: Path) -> None:
    folder = write(tmp_path / "a", **{"a.py": "1"})
    before = sources.digest(folder, ())
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__" / "a.pyc").write_bytes(b"1")
    (folder / "_libucc.so").write_bytes(b"1")
    assert sources.digest(folder, ()) == before
    sources.stage(folder, (), tmp_path / "staged")
    assert [path.name for path in (tmp_path / "staged").rglob("*")] == ["a.py"]


def test_staging_keeps_modes_and_folders(tmp_path: Path) -> None:
    folder = write(tmp_path / "a")
    (folder / "deep").mkdir()
    (folder / "deep" / "run").write_text("x", encoding="utf-8")
    (folder / "deep" / "run").chmod(0o755)
    sources.stage(folder, ("deep/run",), tmp_path / "staged")
    assert sources.digest(tmp_path / "staged", ()) == sources.digest(folder, ())


def test_a_folder_that_nobody_gave_is_asked_for() -> None:
    context = Context(name="toolchain", holds="the binaries", files=("scheduler",))
    with pytest.raises(BuildError, match=r"the binaries must be given; pass --context toolchain="):
        sources.folder_of(context, {})


def test_a_given_folder_that_lacks_a_file_is_refused(tmp_path: Path) -> None:
    context = Context(name="toolchain", holds="the binaries", files=("scheduler",))
    with pytest.raises(BuildError, match=r"has no file scheduler; name a folder with the binaries"):
        sources.folder_of(context, {"toolchain": tmp_path})


def test_a_given_folder_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    context = Context(name="toolchain", holds="the binaries")
    with pytest.raises(BuildError, match="is not a folder"):
        sources.folder_of(context, {"toolchain": tmp_path / "none"})


def test_a_given_folder_goes_before_the_repositorys(tmp_path: Path) -> None:
    context = Context(name="training", path="workloads/training", holds="the package")
    assert sources.folder_of(context, {"training": tmp_path}) == tmp_path
    assert sources.folder_of(context, {}) == sources.REPOSITORY / "workloads/training"


def test_the_default_ucc_is_the_pinned_wheel() -> None:
    ucc = sources.wheel()
    assert ucc.origin == f"PyPI nvidia-libcal-cu12 {versions.LIBCAL_WHEEL}"
    assert ucc.identity == versions.LIBCAL_WHEEL_SHA256
    assert ucc.source is None


def test_a_ucc_checkout_is_named_by_git(tmp_path: Path) -> None:
    tree = ucc_tree(tmp_path / "ucc")
    git = ["git", "-C", str(tree), "-c", "user.name=x", "-c", "user.email=x@localhost"]
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "x"], ["tag", "v1.8.0"]):
        subprocess.run([*git, *command], check=True)
    assert sources.source_tree(tree).origin == "source v1.8.0"


def test_a_ucc_tree_without_git_is_named_by_its_content(tmp_path: Path) -> None:
    ucc = sources.source_tree(ucc_tree(tmp_path / "ucc"))
    assert ucc.origin == f"source {ucc.identity[:12]}"


def test_a_folder_that_is_no_ucc_tree_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match=r"is not a UCC source tree; name a checkout"):
        sources.source_tree(tmp_path)


def test_a_wheel_that_is_there_is_not_downloaded_again(tmp_path: Path) -> None:
    ready = tmp_path / f"libcal-{versions.LIBCAL_WHEEL}"
    ready.mkdir()
    assert sources.download_wheel(tmp_path) == ready


def test_a_wheel_that_cannot_be_had_is_one_sentence_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
    with pytest.raises(
        BuildError, match=r"^the UCC wheel cannot be downloaded: .*; check the"
    ) as e:
        sources.download_wheel(tmp_path / "cache")
    assert "\n" not in str(e.value)
    assert list((tmp_path / "cache").iterdir()) == []
