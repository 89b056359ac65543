import pytest

from infra.names import SERVICE_ACCOUNT_TRAINING
from infra.platform.service_accounts import ServiceAccounts
from tests.conftest import Deploy


@pytest.mark.parametrize(
    ("kind", "name"),
    [("ServiceAccount", SERVICE_ACCOUNT_TRAINING), ("ServiceAccountPatch", "default")],
)
def test_no_account_of_the_namespace_gives_pods_a_token(
    deploy: Deploy, kind: str, name: str
) -> None:
    made = deploy(lambda: ServiceAccounts("a", namespace="jobs"))
    [account] = made.of_type(f"kubernetes:core/v1:{kind}")
    assert account.inputs["automountServiceAccountToken"] is False
    assert account.inputs["metadata"] == {"name": name, "namespace": "jobs"}
