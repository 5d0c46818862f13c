"""Regular expressions for names of topics: what RE2 understands, in bounded time."""

import re
import time
from string import ascii_lowercase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.broker.groups import consumer_regex
from quorate.broker.groups.consumer_errors import InvalidRegularExpressionError
from quorate.broker.groups.consumer_regex import compile_regex

NAMES = ("", "a", "b", "ab", "abc", "a-b", "a.b", "A", "aa", "aaa", "x1", "x12", "_", "app-logs")


def select(expression: str, *names: str) -> set[str]:
    return set(compile_regex(expression).select(names or NAMES))


@pytest.mark.parametrize(
    ("expression", "matched"),
    [
        ("a", {"a"}),
        ("a|b|", {"", "a", "b"}),
        (".", {"a", "b", "A", "_"}),
        ("a.b", {"a-b", "a.b"}),
        (r"a\.b", {"a.b"}),
        ("a*", {"", "a", "aa", "aaa"}),
        ("a+?", {"a", "aa", "aaa"}),
        ("a??b", {"b", "ab"}),
        ("a{2}", {"aa"}),
        ("a{2,}", {"aa", "aaa"}),
        ("a{1,2}", {"a", "aa"}),
        ("a{0}", {""}),
        ("(?:ab|c)*", {"", "ab", "abc"}),
        ("(?P<word>a)(?<more>b)?", {"a", "ab"}),
        ("^app-.*$", {"app-logs"}),
        ("app|app-", set[str]()),
        (r"\Aabc\z", {"abc"}),
        ("a^b", set[str]()),
        ("a$b", set[str]()),
        ("()", {""}),
        ("[ab]", {"a", "b"}),
        ("[^ab]", {"A", "_"}),
        ("[a-c]{3}", {"aaa", "abc"}),
        ("[]a]", {"a"}),
        ("[a-]+b", {"ab", "a-b"}),
        (r"[\d_]|x\d+", {"x1", "x12", "_"}),
        (r"[\x61\142]", {"a", "b"}),
        (r"\x{61}|\x{e4}|\060", {"a"}),
        (r"\w+\W\w+", {"a-b", "a.b", "app-logs"}),
        (r"\D\d", {"x1"}),
        (r"\S*\s", set[str]()),
        (r"a\t?", {"a"}),
        (r"\ba\b.\bb\b", {"a-b", "a.b"}),
        (r"a\B.", {"ab", "aa"}),
        (r"a\b.", set[str]()),
        ("[[:upper:]]", {"A"}),
        ("[[:^lower:]]", {"A", "_"}),
        ("[[:alpha:][:digit:]]{2}", {"ab", "aa", "x1"}),
        ("(?i)a", {"a", "A"}),
        ("(?i)A(?-i)B", set[str]()),
        ("((?i)A)|b", {"a", "A", "b"}),
        ("((?i)B)?a", {"a"}),
        (r"\x{10ffff}|a", {"a"}),
        ("(" * 100 + ")" * 100, {""}),
        ("()" * 200 + "a", {"a"}),
        ("((?i))" * 200 + "a", {"a"}),
        ("(?i:[A-C])(?s:b)", {"ab"}),
        ("(?i)[[:upper:]]", {"a", "b", "A"}),
        (r"\Qa.b\E", {"a.b"}),
        (r"\Qa.b", {"a.b"}),
        ("x{", set[str]()),
        ("a{,2}", set[str]()),
        ("a{x}", set[str]()),
        ("é|a", {"a"}),
        ("/*a", {"a"}),
    ],
)
def test_what_an_expression_matches(expression: str, matched: set[str]) -> None:
    assert select(expression) == matched


@pytest.mark.parametrize(
    ("expression", "matched"),
    [
        (".*", {"a b", "a:1", "a/é", "a\t"}),
        (r"a[ :]\w", {"a b", "a:1"}),
        (r"a\s\S?", {"a b", "a\t"}),
        (r"a\t|a\x3a1", {"a\t", "a:1"}),
        (r"a[[:punct:]][^[:ascii:]]", {"a/é"}),
        ("a/[!-~]", set[str]()),
        ("a[!-é][!-é]", {"a:1"}),
    ],
)
def test_what_matches_ids_which_may_have_other_characters(
    expression: str, matched: set[str]
) -> None:
    assert select(expression, "a b", "a:1", "a/é", "a\t") == matched


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("*a", "missing argument"),
        ("a|+", "missing argument"),
        ("a**", "nested repetition"),
        ("a+{2}", "nested repetition"),
        ("a{2,1}", "repeat count"),
        ("a{1001}", "repeat count"),
        ("a{" + "9" * 5000 + "}", "repeat count"),
        ("a{1," + "9" * 5000 + "}", "repeat count"),
        ("(a", r"missing closing \)"),
        ("(?i", r"missing closing \)"),
        ("a)", r"unexpected \)"),
        ("[a", "missing closing ]"),
        ("[", "missing closing ]"),
        ("[z-a]", "class range"),
        (r"[a-\d]", "class range"),
        ("[[:word]", "class range"),
        ("[[:nope:]]", "class range"),
        ("\\", "trailing backslash"),
        ("[\\", "trailing backslash"),
        (r"\y", "invalid escape"),
        (r"(a)\1", "invalid escape"),
        (r"\pL", "invalid escape"),
        (r"\xg1", "invalid escape"),
        (r"\x{}", "invalid escape"),
        (r"\x{110000}", "invalid escape"),
        (r"\x{61", "invalid escape"),
        ("(?=a)", "Perl syntax"),
        ("(?P>a)", "Perl syntax"),
        ("(?P<>a)", "named capture"),
        ("(?P<a-b>a)", "named capture"),
        ("(?<a", "named capture"),
        ("(?i--s)", "Perl syntax"),
        ("(" * 101 + ")" * 101, "nests too deeply"),
        ("(a{1000}){1000}", "too large"),
    ],
)
def test_what_is_no_expression_is_refused_with_the_reason(expression: str, why: str) -> None:
    with pytest.raises(InvalidRegularExpressionError, match=why):
        compile_regex(expression)


@pytest.mark.parametrize("expression", ["(a+)+b", "(a|a)*b", "(.*)(.*)(.*)(.*)x", "(a*)*" * 20])
def test_what_keeps_others_busy_for_years_is_done_at_once(expression: str) -> None:
    begin = time.process_time()
    assert select(expression, "a" * 249, "b" * 249, "ab" * 120) <= {"a" * 249}
    assert time.process_time() - begin < 5


def test_what_takes_too_long_all_the_same_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumer_regex, "STEPS_MAX", 100)
    with pytest.raises(InvalidRegularExpressionError, match="takes too long"):
        select("(a|b)*" * 30, "ab" * 100)


def test_names_that_come_one_by_one_take_no_longer_than_all_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(consumer_regex, "STEPS_MAX", 20)
    assert [select("[a-z]*", name) for name in ascii_lowercase] == [{n} for n in ascii_lowercase]
    regex = compile_regex("[a-z]*")
    with pytest.raises(InvalidRegularExpressionError, match="takes too long"):
        [regex.select([name]) for name in ascii_lowercase]


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumer_regex, "KNOWN_MAX", 2)
    assert select("(a|b|c)*") == {"", "a", "b", "ab", "abc", "aa", "aaa"}


def test_very_many_topics_are_matched_with_few_steps() -> None:
    names = [f"app-{number}" for number in range(20_000)]
    assert len(select("app-.*5", *names)) == 2_000


PIECES = st.sampled_from(
    ["a", "b", "-", r"\.", ".", "[ab]", "[^a]", "a|b", "(a)", "(ab|b)", "(?:a|)", "^", "$", r"\b"]
)


@st.composite
def expressions(draw: st.DrawFn) -> str:
    """Return an expression that Python reads the same way."""
    parts = draw(st.lists(PIECES, max_size=6))
    quantifiers = st.sampled_from(["", "", "", "*", "+", "?", "{2}", "{0,2}"])
    return "".join(f"(?:{part}){draw(quantifiers)}" for part in parts)


@given(expressions(), st.lists(st.text("ab-.", max_size=6), max_size=8))
def test_it_matches_what_python_matches(expression: str, names: list[str]) -> None:
    known = re.compile(expression.replace("$", r"\Z"))
    assert compile_regex(expression).select(names) == {n for n in names if known.fullmatch(n)}
