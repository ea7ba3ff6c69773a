"""Users read plain English: no word that was replaced, and no sentence of more than 35 words."""

import ast

from tools.prose import (
    docstring_blocks,
    long_sentences,
    page_blocks,
    read,
    replaced_words,
    sentences,
    text_blocks,
    words,
)

EVERYTHING = list(read())


def test_no_help_or_error_has_a_sentence_of_more_than_35_words():
    found = long_sentences(EVERYTHING)
    assert not found, "\n".join(found)


def test_replaced_words_are_gone_from_pages_help_errors_ledgers_and_docstrings():
    found = replaced_words(EVERYTHING)
    assert not found, "\n".join(found)


def test_every_kind_of_text_is_looked_at():
    kinds = [kind for kind, _, _ in EVERYTHING]
    found = {kind: kinds.count(kind) for kind in set(kinds)}
    assert found.keys() == {"page", "help", "text", "phrase", "docstring"} and min(found.values()) > 200
    shown = " ".join(block for _, _, block in EVERYTHING)
    assert "Deal a public data set among K parties" in shown and "a few numbers for each row, made from its" in shown


def test_long_sentences_and_old_words_are_found_wherever_they_hide():
    page = f"# A *told* word\n\n- {'word ' * 36}end.\n\n| says so | bytes a row |\n|---|---|\n```\nalike\n```\n`told`"
    blocks = [("page", "a.md", block) for block in page_blocks(page)]
    assert len(long_sentences(blocks)) == 1
    assert [one.split("'")[1] for one in replaced_words(blocks)] == ["told", "says so", "bytes a row"]
    code = ast.parse(f'def f(x):\n    """By chance."""\n    raise ValueError(f"x is {{x}} {"word " * 36}")')
    assert [block for _, block in docstring_blocks(code)] == ["By chance."]
    assert len(long_sentences([(kind, "a.py", block) for kind, _, block in text_blocks(code)])) == 1


def test_a_sentence_ends_with_its_mark_and_not_with_a_number_or_a_name():
    assert sentences("It costs 1.5 s (see a.b). Then `run` it! Is it so?") == [
        "It costs 1.5 s (see a.b).",
        "Then `run` it!",
        "Is it so?",
    ]
    assert words("FedOnce, with 3 parties - and no more") == 7
