import pytest

from workloads.training.carriers import CARRIERS, ITEM_SIZES, OPERATIONS


@pytest.mark.parametrize("carrier", CARRIERS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
@pytest.mark.parametrize("operation", ["sum", "max"])
def test_every_carrier_has_what_the_check_requires(
    carrier: str, dtype: str, operation: str
) -> None:
    assert CARRIERS[carrier].why_not(operation, dtype) is None


def test_only_libucc_has_an_average() -> None:
    have = {name for name, c in CARRIERS.items() if c.why_not("avg", "float32") is None}
    assert have == {"libucc"}


@pytest.mark.parametrize("carrier", CARRIERS)
def test_no_carrier_is_asked_for_an_average_of_integers(carrier: str) -> None:
    assert CARRIERS[carrier].why_not("avg", "int64")


def test_types_that_a_carrier_lacks_are_lacking_for_every_operation() -> None:
    for operation in OPERATIONS:
        assert CARRIERS["mpi"].why_not(operation, "bfloat16")
        assert CARRIERS["libucc"].why_not(operation, "float16")


def test_lacks_name_only_known_operations_and_types() -> None:
    for carrier in CARRIERS.values():
        for lack in carrier.lacks:
            assert lack.why
            assert lack.operations <= set(OPERATIONS)
            assert lack.dtypes <= set(ITEM_SIZES)
