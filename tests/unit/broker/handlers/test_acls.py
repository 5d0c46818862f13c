"""There are no access rules, and who asks is told as by Kafka without an authorizer."""

from quorate.broker.handlers.acls import create_acls, delete_acls, describe_acls
from quorate.errors import ErrorCode
from quorate.protocol.messages.acls import (
    AclCreation,
    CreateAclsRequest,
    DeleteAclsFilter,
    DeleteAclsRequest,
    DescribeAclsRequest,
)
from tests.unit.broker.harness import new_node, over

CALLER = over()
OFF = int(ErrorCode.SECURITY_DISABLED)


def test_rules_are_switched_off() -> None:
    broker = new_node().broker
    assert describe_acls(broker, DescribeAclsRequest(), CALLER).error_code == OFF


def test_each_rule_and_each_filter_is_refused() -> None:
    broker = new_node().broker
    made = create_acls(broker, CreateAclsRequest(creations=[AclCreation()] * 2), CALLER)
    assert [result.error_code for result in made.results] == [OFF, OFF]
    gone = delete_acls(broker, DeleteAclsRequest(filters=[DeleteAclsFilter()] * 2), CALLER)
    assert [result.error_code for result in gone.filter_results] == [OFF, OFF]
