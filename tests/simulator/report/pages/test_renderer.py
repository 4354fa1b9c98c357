"""Pages are filled from templates, and everything is escaped."""

import jinja2
import pytest

from fleetledger.simulator.report.pages.renderer import Shown, render
from fleetledger.simulator.report.tables.table import Table


def compare_page(**changes: object) -> str:
    empty = Table("t", ("a",), ())
    content: dict[str, object] = {
        "title": "x",
        "runs": [("one", "two", "three")],
        "warnings": [],
        "pictures": [Shown("p.png", "P", "seen", b"\x89PNG")],
        "means": empty,
        "intervals": empty,
        "differences": empty,
        "settings": empty,
    }
    return render("compare.html", **(content | changes))


def test_names_are_escaped():
    page = compare_page(
        title="<script>alert(1)</script>",
        warnings=["a & b"],
        means=Table('"><img src=x>', ("<b>",), (("<i>",),), "<u>"),
    )
    assert "<script>" not in page
    assert "<img src=x>" not in page
    assert "<b>" not in page
    assert "&lt;i&gt;" in page
    assert "a &amp; b" in page


def test_pictures_are_in_the_page():
    assert 'src="data:image/png;base64,iVBORw=="' in compare_page()


def test_what_a_template_lacks_is_an_error():
    with pytest.raises(jinja2.UndefinedError, match="title"):
        render("compare.html", runs=[], warnings=[])
