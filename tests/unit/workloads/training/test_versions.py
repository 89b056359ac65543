import platform
from pathlib import Path

from workloads.training.versions import NONE, origin, package_hash, versions


def test_every_library_has_a_version_or_is_said_to_be_unused() -> None:
    found = versions(ucc="1.4.0")
    assert found["python"] == platform.python_version()
    assert found["ucc"] == "1.4.0"
    assert found["ucx"] == NONE
    assert set(found) == {"python", "torch", "ucc", "ucx", "openmpi", "training"}
    assert all(found.values())


def a_package(folder: Path) -> Path:
    (folder / "libucc").mkdir(parents=True)
    (folder / "a.py").write_text("a = 1")
    (folder / "libucc" / "x.cpp").write_text("int x;")
    return folder


def test_the_package_hash_follows_the_sources(tmp_path: Path) -> None:
    first = package_hash(a_package(tmp_path / "first"))
    second = a_package(tmp_path / "second")
    assert package_hash(second) == first
    (second / "libucc" / "x.cpp").write_text("int y;")
    assert package_hash(second) != first


def test_a_renamed_or_split_source_changes_the_hash(tmp_path: Path) -> None:
    folder = a_package(tmp_path / "p")
    before = package_hash(folder)
    (folder / "a.py").rename(folder / "b.py")
    assert package_hash(folder) != before


def test_what_is_built_does_not_change_the_hash(tmp_path: Path) -> None:
    folder = a_package(tmp_path / "p")
    before = package_hash(folder)
    (folder / "libucc" / "_libucc.so").write_bytes(b"different on every build")
    assert package_hash(folder) == before


def test_a_library_comes_from_where_its_prefix_says_or_from_its_path(tmp_path: Path) -> None:
    library = tmp_path / "lib" / "libucc.so.1"
    library.parent.mkdir()
    library.touch()
    assert origin(str(library)) == str(library)
    (tmp_path / "ORIGIN").write_text("a wheel\n")
    assert origin(str(library)) == "a wheel"
    assert origin("") == NONE
