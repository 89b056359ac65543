import pytest
from pydantic import TypeAdapter, ValidationError

from infra.config_parts import Count, DnsLabel, Part, Switch


class Example(Part):
    """One key with a default."""

    number: Count = 1


def test_an_unknown_key_is_refused() -> None:
    with pytest.raises(ValidationError, match="Extra inputs"):
        Example.model_validate({"numbre": 1})


def test_values_never_change() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        Example().number = 2


@pytest.mark.parametrize("value", [True, "1", 1.0, None])
def test_a_count_is_a_whole_number_and_nothing_that_looks_like_one(value: object) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(Count).validate_python(value)


@pytest.mark.parametrize("value", ["yes", "true", 1, None])
def test_a_switch_is_true_or_false(value: object) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(Switch).validate_python(value)


@pytest.mark.parametrize("value", ["", "A", "1a", "a-", "a" * 21, "a.b"])
def test_a_label_is_short_and_lower_case(value: str) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(DnsLabel).validate_python(value)
