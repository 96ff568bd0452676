"""CSV that is opened in a spreadsheet runs nothing that the source delivered."""

import csv
from decimal import Decimal

import pytest

from medallion.cli.common import show_rows
from medallion.csv_cells import plain_cells


@pytest.mark.parametrize("begins", ["=", "+", "-", "@", "\t", "\r"])
def test_text_that_begins_like_a_formula_gets_an_apostrophe(begins: str) -> None:
    text = f"{begins}HYPERLINK(1)"
    assert plain_cells([text, f"a{text}", ""]) == [f"'{text}", f"a{text}", ""]


@pytest.mark.parametrize("value", [-1, -1.5, Decimal("-0.10"), "-1", "+1.50", "-1e5", None, True, "-", "+"])
def test_number_or_sign_stays_as_it_is(value: object) -> None:
    assert plain_cells([value]) == [value]


@pytest.mark.parametrize("text", ["--", "--1", "-1+2", "+49 170", "-1.5.", "=1"])
def test_text_that_only_looks_like_a_number_is_text(text: str) -> None:
    assert plain_cells([text]) == [f"'{text}"]


def test_csv_of_a_command_has_plain_cells_in_names_and_rows(capsys: pytest.CaptureFixture[str]) -> None:
    show_rows(["id", "=cmd"], [(-1, "@SUM(A1)")], "csv")
    assert list(csv.reader(capsys.readouterr().out.splitlines())) == [["id", "'=cmd"], ["-1", "'@SUM(A1)"]]
