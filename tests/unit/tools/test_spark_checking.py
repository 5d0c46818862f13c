"""What is judged of a machine that is to run PySpark, and the program to begin with."""

import ast
import json
import tomllib
from pathlib import Path

import pytest

from quorate.tools.cli import run_command
from quorate.tools.doctor import BAD, OK, WARNING
from quorate.tools.spark_checking import (
    PYSPARK_BELOW,
    PYSPARK_MIN,
    example_program,
    judge_connector,
    judge_java,
    judge_pyarrow,
    judge_pyspark,
)

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("said", "state", "detail"),
    [
        ('openjdk version "17.0.12" 2024-07-16', OK, "version 17"),
        ('java version "21" 2023-09-19 LTS', OK, "version 21"),
        ('java version "1.8.0_412"', BAD, "version 8"),
        ("Unable to locate\n  a Java Runtime", BAD, "Unable to locate a Java Runtime"),
        ("", BAD, "it says nothing"),
        (None, BAD, "there is none, and Spark runs on it"),
    ],
)
def test_java_is_judged_by_its_version(said: str | None, state: str, detail: str) -> None:
    finding = judge_java(said)
    assert (finding.state, finding.detail) == (state, detail)
    assert ("Java 17" in finding.advice) is (state == BAD)


@pytest.mark.parametrize(
    ("version", "state"),
    [
        ("4.2.0", OK),
        ("4.3.0.dev1", OK),
        ("4.1.9", BAD),
        ("3.5.1", BAD),
        ("5.0.0", BAD),
        (None, BAD),
    ],
)
def test_pyspark_is_judged_by_its_version(version: str | None, state: str) -> None:
    finding = judge_pyspark(version)
    assert finding.state == state
    assert ("pip install" in finding.advice) is (state == BAD)


def test_the_versions_are_those_that_are_installed_with_quorate() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = f"pyspark>={PYSPARK_MIN[0]}.{PYSPARK_MIN[1]},<{PYSPARK_BELOW[0]}"
    assert wanted in project["optional-dependencies"]["spark"]


def test_a_connector_that_spark_does_not_find_can_be_registered() -> None:
    assert judge_connector(is_found=True).state == OK
    lost = judge_connector(is_found=False)
    assert (lost.state, "register" in lost.advice) == (WARNING, True)
    assert [judge_pyarrow(found).state for found in ("18.0", None)] == [OK, BAD]


def test_a_program_has_what_was_given_and_no_password() -> None:
    properties = {
        "ssl.key.password": "secret",
        "client.id": 'the "first"',
        "bootstrap.servers": "x",
    }
    program = example_program("or-ders", "b1:9092,b2:9092", properties, "-1h")
    ast.parse(program)
    assert "secret" not in program
    lines = [line.strip() for line in program.splitlines() if ".option" in line]
    assert lines == [
        '.option("kafka.bootstrap.servers", "b1:9092,b2:9092")',
        '.option("subscribe", "or-ders")',
        '.option("kafka.client.id", "the \\"first\\"")',
        '.option("kafka.ssl.key.password", os.environ["SSL_KEY_PASSWORD"])',
        '.option("since", "-1h")',
    ]
    assert "import os" not in example_program("t", "b:1", {}, "")


def test_a_cluster_that_does_not_answer_is_a_problem_that_was_found(
    capsys: pytest.CaptureFixture[str],
) -> None:
    where = ["-b", "127.0.0.1:1", "--timeout", "0.2", "--json", "spark", "check", "orders"]
    assert run_command(where) == 3
    findings = {item["check"]: item for item in json.loads(capsys.readouterr().out)["items"]}
    assert findings["cluster"]["state"] == BAD
    assert findings["cluster"]["detail"].startswith("no broker at 127.0.0.1:1")
    assert "quorate up" in findings["cluster"]["advice"]
