"""An example or more of every command, as ``--help`` shows them."""

from typing import Final

EXAMPLES: Final[dict[str, tuple[str, ...]]] = {
    "up": (
        "quorate up",
        "quorate up --brokers 3 --controllers 3 --detach",
        "quorate up --port 0 --dir /tmp/q -X log.segment.bytes=64M",
    ),
    "status": ("quorate status", "quorate status -b broker:9092 --json"),
    "down": ("quorate down", "quorate down --dir /tmp/q"),
    "tui": (
        "quorate tui",
        "quorate tui partitions orders",
        "quorate tui messages orders @-1h",
        "quorate tui -b broker:9092 --rw",
        "quorate tui groups --once --filter 'state:Stable'",
    ),
    "demo": (
        "quorate demo",
        "quorate demo list",
        "quorate demo three-failures",
        "quorate demo isr-shrink --json",
    ),
    "topics create": (
        "quorate topics create orders",
        "quorate topics create orders -p 6 -r 3 -c min.insync.replicas=2 --if-not-exists",
    ),
    "topics list": ("quorate topics list", "quorate topics ls 'app.*' --format wide"),
    "topics describe": ("quorate topics describe orders", "quorate topics describe --json"),
    "topics alter": (
        "quorate topics alter orders --partitions 12 --dry-run",
        "quorate topics alter orders -c retention.ms=1d --delete-config segment.bytes",
    ),
    "topics delete": (
        "quorate topics delete orders",
        "quorate topics rm --regex 'test-.*' --dry-run",
    ),
    "topics trim": (
        "quorate topics trim orders --before @-7d --dry-run",
        "quorate topics trim orders -p 0 --before 1000 -y",
    ),
    "topics find": (
        "quorate topics find orders --key o-17",
        "quorate topics find orders --where 'amount>6000' --since -1h -n 10",
        "quorate topics find logs --value 'timeout|refused' -H lang=en --json",
    ),
    "topics export": (
        "quorate topics export orders --to orders.jsonl.gz",
        "quorate topics export logs --to logs.csv --since -1d --until 2026-03-01T10:00",
    ),
    "topics stats": ("quorate topics stats", "quorate topics stats orders --json"),
    "partitions list": (
        "quorate partitions list --under-replicated",
        "quorate partitions ls orders --offline --exit-code",
    ),
    "partitions describe": ("quorate partitions describe orders:0",),
    "partitions elect": (
        "quorate partitions elect --all",
        "quorate partitions elect orders:0 --unclean --dry-run",
    ),
    "partitions verify": ("quorate partitions verify orders",),
    "partitions reassign plan": (
        "quorate partitions reassign plan orders --broker-list 1,2,4 > plan.json",
        "quorate partitions reassign plan --add-broker 4",
    ),
    "partitions reassign apply": (
        "quorate partitions reassign apply plan.json --wait",
        "quorate partitions reassign apply orders:0=1,2,4 --dry-run",
    ),
    "partitions reassign status": ("quorate partitions reassign status --wait",),
    "partitions reassign cancel": ("quorate partitions reassign cancel orders",),
    "produce": (
        "echo hello | quorate produce orders",
        "quorate produce orders -K : < lines-of-key-and-value",
        "tail -f app.log | quorate produce logs -k web-1 -z zstd -H lang=en",
    ),
    "consume": (
        "quorate consume orders --from-beginning -n 5",
        "quorate consume orders -o @-1h:end --json",
        "quorate consume orders -g billing -f '%p %o %k %v\\n'",
    ),
    "groups list": ("quorate groups list", "quorate groups ls --state Stable --json"),
    "groups describe": (
        "quorate groups describe billing",
        "quorate groups describe billing --members",
    ),
    "groups lag": ("quorate groups lag billing", "quorate groups lag billing -w --max 1000"),
    "groups reset": (
        "quorate groups reset billing -t orders --to-earliest",
        "quorate groups reset billing -t orders:0 --shift-by -10 --execute",
    ),
    "groups undo": ("quorate groups undo billing", "quorate groups undo billing --execute"),
    "groups delete-offsets": ("quorate groups delete-offsets billing -t orders --dry-run",),
    "groups delete": ("quorate groups delete billing --dry-run",),
    "groups kick": ("quorate groups kick billing --all --reason 'new version'",),
    "txns list": ("quorate txns list", "quorate txns list --json"),
    "txns describe": ("quorate txns describe payments-1",),
    "txns producers": ("quorate txns producers orders -p 0",),
    "txns find-hanging": (
        "quorate txns find-hanging",
        "quorate txns find-hanging orders --max-transaction-timeout 5",
    ),
    "txns abort": (
        "quorate txns abort payments-1 --dry-run",
        "quorate txns abort --topic orders -p 0 --start-offset 17",
    ),
    "offsets": (
        "quorate offsets orders",
        "quorate offsets orders --time @-1h",
        "quorate offsets --time latest --format kafka",
    ),
    "configs describe": (
        "quorate configs describe topic/orders",
        "quorate configs describe broker/1 --all",
    ),
    "configs get": ("quorate configs get topic/orders retention.ms",),
    "configs set": (
        "quorate configs set topic/orders retention.ms=1d flush.messages=1",
        "quorate configs set group/billing consumer.session.timeout.ms=1m --dry-run",
    ),
    "configs unset": ("quorate configs unset topic/orders retention.ms",),
    "configs list": ("quorate configs list", "quorate configs list --node --json"),
    "log dump": (
        "quorate log dump .quorate/orders-0 --print-data-log",
        "quorate log dump .quorate/orders-0/00000000000000000000.log --json",
    ),
    "log verify": ("quorate log verify .quorate",),
    "metadata cat": (
        "quorate metadata cat --follow",
        "quorate metadata cat --dir .quorate --topic orders",
    ),
    "metadata shell": (
        "quorate metadata shell",
        "quorate metadata shell cat /topics/orders/0",
        "quorate metadata shell --dir .quorate",
    ),
    "metadata at": (
        "quorate metadata at -10m /topics/orders",
        "quorate metadata at 1234 --json",
    ),
    "metadata diff": (
        "quorate metadata diff -10m",
        "quorate metadata diff 100 200 /topics --exit-code",
    ),
    "why leader": ("quorate why leader orders:0",),
    "why isr": ("quorate why isr orders:0 --format json",),
    "why offline": ("quorate why offline orders:0 --dir .quorate",),
    "why rebalance": ("quorate why rebalance billing",),
    "why lag": ("quorate why lag billing --topic orders",),
    "quorum status": ("quorate quorum status", "quorate quorum status -C controller:9093"),
    "quorum replication": ("quorate quorum replication",),
    "quorum watch": ("quorate quorum watch", "quorate quorum watch -i 1 -n 10"),
    "quorum add": ("quorate quorum add 4 --dry-run", "quorate quorum add 4@host:9093 -y"),
    "quorum remove": ("quorate quorum remove 3 --dry-run",),
    "quorum transfer": ("quorate quorum transfer --to 2",),
    "doctor connect": ("quorate doctor connect broker:9092",),
    "doctor machine": ("quorate doctor machine --dir /data --port 9092",),
    "verify run": (
        "quorate verify run append --time 60",
        "quorate verify run groups --faults kill,pause --seed 7",
    ),
    "verify check": ("quorate verify check history.jsonl",),
    "verify report": ("quorate verify report --html report.html",),
    "verify list": ("quorate verify list", "quorate verify list --workloads"),
    "verify show": ("quorate verify show --anomaly lost-write",),
    "verify mutants": ("quorate verify mutants --list", "quorate verify mutants --seeds 2"),
    "spark read": (
        "quorate spark read orders --since -1h --to parquet:out",
        "quorate spark read logs --columns key,value --to parquet:out --overwrite",
    ),
    "broker start": (
        "quorate broker start --id 1 --controllers host:9093 --dir /data/broker-1",
        "quorate broker start --id 2 --controllers host:9093 --rack b --config node.toml",
    ),
    "broker list": ("quorate broker list", "quorate brokers ls --json"),
    "broker describe": ("quorate broker describe 1 --dirs",),
    "broker drain": ("quorate broker drain 2 --dry-run",),
    "broker undrain": ("quorate broker undrain 2",),
    "broker decommission": (
        "quorate broker decommission 3 --dry-run",
        "quorate broker decommission 3 --throttle 50MB -y",
    ),
    "controller start": (
        "quorate controller start --id 1 --listen 127.0.0.1:9093 --dir /data/controller-1",
        "quorate controller start --id 4 --listen host4:9093 --join host1:9093",
    ),
    "profile add": (
        "quorate profile add prod -b broker-1:9092,broker-2:9092 --use",
        "quorate profile add dev -F client.properties -X security.protocol=SSL",
    ),
    "profile list": ("quorate profile list", "quorate profile ls --json"),
    "profile use": ("quorate profile use prod", "quorate profile use --none"),
    "profile show": ("quorate profile show", "quorate profile show prod --json"),
    "profile remove": ("quorate profile remove old",),
    "completion": (
        "source <(quorate completion bash)",
        "quorate completion bash >> ~/.bashrc",
        "quorate completion zsh > ~/.zfunc/_quorate  # with fpath+=~/.zfunc before compinit",
        "quorate completion fish > ~/.config/fish/completions/quorate.fish",
    ),
    "version": ("quorate version",),
}
