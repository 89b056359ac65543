import pytest

from workloads.training.arguments import Arguments, byte_count, read_arguments


def test_only_the_carrier_must_be_given() -> None:
    assert read_arguments(["--carrier", "gloo"]) == Arguments(
        carrier="gloo", max_bytes=2**28, is_quick=False, deadline_seconds=60.0, fault=None
    )


@pytest.mark.parametrize(
    ("text", "count"), [("4", 4), ("4B", 4), ("3KiB", 3072), ("256MiB", 2**28)]
)
def test_sizes_are_in_binary_units(text: str, count: int) -> None:
    assert byte_count(text) == count


@pytest.mark.parametrize("text", ["", "0", "-1", "1.5MiB", "1MB", "MiB", "\u0664"])
def test_a_size_in_another_form_is_refused(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        read_arguments(["--carrier", "gloo", f"--max-bytes={text}"])
    assert ended.value.code == 2
    assert "is no size; write a whole number of B, KiB or MiB" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [[], ["--carrier", "nccl"], ["--carrier", "mpi", "--deadline", "0"], ["--fault", "x"]],
)
def test_wrong_arguments_end_with_status_2(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        read_arguments(arguments)
    assert ended.value.code == 2


def test_the_deadline_and_the_fault_may_differ_between_ranks() -> None:
    chosen = read_arguments(["--carrier", "mpi", "--fault", "hang", "--deadline", "5"])
    assert chosen.fault == "hang"
    assert set(chosen.for_agreement()) == {"--carrier", "--max-bytes", "--quick"}
