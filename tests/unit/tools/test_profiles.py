"""Clusters under names, and which of them a command talks to."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from quorate.tools.arguments import GlobalOptions
from quorate.tools.cli import run_command
from quorate.tools.problems import CommandError, UsageError
from quorate.tools.profiles import (
    Profile,
    Profiles,
    profile_of,
    profiles_path,
    read_profiles,
    write_profiles,
)
from quorate.tools.reaching import asks_controllers, controllers_of
from quorate.tools.session import bootstrap, client_properties, client_texts

PROD = Profile("prod:9092", "ctl:9093", "", {"security.protocol": "SSL", "acks": "1"})


@pytest.fixture(autouse=True)
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    where = tmp_path / "sub" / "profiles.json"
    monkeypatch.setenv("QUORATE_PROFILES", str(where))
    for name in ("QUORATE_BOOTSTRAP", "QUORATE_CONTROLLERS", "QUORATE_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    return where


def told(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    code = run_command(list(words))
    captured = capsys.readouterr()
    return code, captured.out + captured.err


def options(**said: Any) -> GlobalOptions:
    all_said: dict[str, Any] = {"bootstrap": "", **said}
    return GlobalOptions(**all_said)


def test_a_profile_is_kept_used_shown_and_forgotten(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "No profiles yet" in told(capsys, "profile", "list")[1]
    words = ["-b", "prod:9092", "-X", "ssl.key.password=hush", "-X", "security.protocol=SSL"]
    assert "quorate profile use prod" in told(capsys, "profile", "add", "prod", *words)[1]
    assert told(capsys, "profile", "use", "prod") == (0, "Using prod: prod:9092.\n")
    told(capsys, "profiles", "create", "dev", "-C", "ctl:9093", "-F", "client.properties")
    assert told(capsys, "profile", "ls")[1].splitlines()[1:] == [
        "dev   false   -          ctl:9093",
        "prod  true    prod:9092  -",
    ]
    shown = told(capsys, "profile", "show")[1]
    assert "ssl.key.password: ********" in shown
    assert "hush" not in shown + told(capsys, "profile", "list", "--json")[1]
    assert json.loads(told(capsys, "profile", "show", "dev", "--json")[1]) == {
        "name": "dev", "in_use": False, "bootstrap": "", "controllers": "ctl:9093",
        "command_config": str(Path("client.properties").absolute()), "properties": {},
    }  # fmt: skip
    assert path.stat().st_mode & 0o777 == 0o600, "passwords may stand in it"
    assert told(capsys, "profile", "rm", "prod") == (0, "Removed profile prod.\n")
    assert read_profiles(path) == Profiles("", {"dev": read_profiles(path).get("dev")})
    assert told(capsys, "profile", "use", "dev")[0] == 0
    assert told(capsys, "profile", "use", "--none") == (0, "Using no profile.\n")
    assert "bootstrap" not in told(capsys, "profile", "add", "dev", "-b", "b:1", "--use")[1]
    assert read_profiles(path).current == "dev"


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["add", "p"], "where the cluster is"),
        (["add", "-x", "-b", "h:1"], "No such option"),
        (["add", " ", "-b", "h:1"], "no name"),
        (["add", "p", "-b", "h:1", "-X", "akcs=1"], "akcs"),
        (["add", "p", "-b", "h:1", "-X", "acks=5"], "acks"),
        (["use"], "name a profile"),
        (["use", "p", "--none"], "name a profile"),
        (["use", "p"], "none yet"),
        (["remove", "p"], "there is no profile 'p'"),
        (["show"], "no profile is in use"),
    ],
)
def test_what_makes_no_sense_is_refused_and_changes_nothing(
    words: list[str], what: str, path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, text = told(capsys, "profile", *words)
    assert code == 2
    assert what in text
    assert not path.exists()


def test_what_is_named_holds_before_what_is_in_use(path: Path) -> None:
    write_profiles(path, Profiles("prod", {"prod": PROD, "dev": Profile("dev:1")}))
    env = dict(os.environ)
    in_env = {**env, "QUORATE_BOOTSTRAP": "env:1"}
    assert bootstrap(options(), env) == "prod:9092"
    assert bootstrap(options(), in_env) == "env:1"
    assert bootstrap(options(profile="dev"), in_env) == "dev:1"
    assert bootstrap(options(bootstrap="b:1"), env) == "b:1"
    assert bootstrap(options(bootstrap="b:1", profile="prod"), env) == "b:1"
    assert bootstrap(options(properties=("bootstrap.servers=x:1",)), env) == "x:1"
    with pytest.raises(UsageError, match="did you mean prod"):
        profile_of(options(profile="prdo"), env)


def test_settings_of_a_profile_go_to_no_other_cluster(path: Path) -> None:
    write_profiles(path, Profiles("prod", {"prod": PROD}))
    assert client_properties(options()).values == {"security.protocol": "SSL"}
    assert client_texts(options())["acks"] == "1"
    for said in ({"bootstrap": "b:1"}, {"command_config": "f"}, {"controllers": "c:1"}):
        assert profile_of(options(**said), dict(os.environ)) is None
    named = options(bootstrap="b:1", profile="prod", properties=("security.protocol=PLAINTEXT",))
    assert client_properties(named).values == {"security.protocol": "PLAINTEXT"}


def test_controllers_of_a_profile_are_asked_where_controllers_are(path: Path) -> None:
    write_profiles(path, Profiles("prod", {"prod": PROD}))
    assert asks_controllers(options())
    assert [str(endpoint) for endpoint in controllers_of(options())] == ["ctl:9093"]
    assert not asks_controllers(options(bootstrap="b:1"))
    assert str(controllers_of(options(controllers="d:1"))[0]) == "d:1"


def test_a_profile_may_name_a_file_of_properties(path: Path, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("bootstrap.servers=f:1\nclient.id=f\nrequest.timeout.ms=5\n")
    write_profiles(
        path, Profiles("p", {"p": Profile("", "", str(file), {"client.id": "from profile"})})
    )
    assert bootstrap(options(), dict(os.environ)) == "f:1"
    assert client_properties(options()).values["client.id"] == "from profile"


def test_where_profiles_are() -> None:
    assert profiles_path({"QUORATE_PROFILES": "/p"}) == Path("/p")
    assert profiles_path({"XDG_CONFIG_HOME": "/x"}) == Path("/x/quorate/profiles.json")
    assert profiles_path({"HOME": "/h"}) == Path("/h/.config/quorate/profiles.json")


def test_a_file_that_cannot_be_read_or_written_is_told(path: Path) -> None:
    path.parent.mkdir()
    for text in ("{", "[]", '{"current": "", "profiles": {"p": {"boot": 1}}}'):
        path.write_text(text)
        with pytest.raises(CommandError, match="cannot read the profiles"):
            read_profiles(path)
    with pytest.raises(CommandError, match="cannot write"):
        write_profiles(path / "below" / "p.json", Profiles())


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_get_a_script(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, text = told(capsys, "completion", shell)
    assert code == 0
    assert f"_QUORATE_COMPLETE=complete_{shell}" in text
    if shell == "bash":
        subprocess.run(["bash", "-n"], input=text, text=True, check=True)


def test_there_is_no_script_for_other_shells(capsys: pytest.CaptureFixture[str]) -> None:
    code, text = told(capsys, "completion", "tcsh")
    assert code == 2
    assert "'bash', 'zsh', 'fish'" in text
