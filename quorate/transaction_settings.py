"""The settings of transactions; names and defaults are Kafka's."""

from quorate.dataclass import dataclass
from quorate.group_settings import GroupConfig
from quorate.setting_fields import INT_MAX, WEEK_MS, bytes_field, flag_field, ms_field, number_field


@dataclass(frozen=True, slots=True)
class CoordinatorConfig(GroupConfig):
    """What a node that coordinates groups and transactions goes by."""

    transaction_state_log_num_partitions: int = number_field(
        "transaction.state.log.num.partitions",
        50,
        "Partitions of __transaction_state, when it is created.",
        low=1,
    )
    transaction_state_log_replication_factor: int = number_field(
        "transaction.state.log.replication.factor",
        3,
        "Replicas of __transaction_state, when it is created.",
        low=1,
        high=32767,
    )
    transaction_state_log_min_isr: int = number_field(
        "transaction.state.log.min.isr",
        2,
        "min.insync.replicas of __transaction_state, when it is created.",
        low=1,
    )
    transaction_state_log_segment_bytes: int = bytes_field(
        "transaction.state.log.segment.bytes",
        104_857_600,
        "Segment size of __transaction_state, when it is created.",
        low=1024,
    )
    transaction_max_timeout_ms: int = ms_field(
        "transaction.max.timeout.ms",
        900_000,
        "The longest transaction.timeout.ms that producers may ask for.",
        low=1,
        high=INT_MAX,
    )
    transactional_id_expiration_ms: int = ms_field(
        "transactional.id.expiration.ms",
        WEEK_MS,
        "Forget a transactional id that was not used for so long.",
        low=1,
        high=INT_MAX,
    )
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = ms_field(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        10_000,
        "How often transactions that took too long are looked for, and aborted.",
        low=1,
        high=INT_MAX,
    )
    transaction_remove_expired_transaction_cleanup_interval_ms: int = ms_field(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        3_600_000,
        "How often transactional ids to forget are looked for.",
        low=1,
        high=INT_MAX,
    )
    transaction_partition_verification_enable: bool = flag_field(
        "transaction.partition.verification.enable",
        default=True,
        meaning="Ask the coordinator whether a partition takes part, before it is written to.",
    )
