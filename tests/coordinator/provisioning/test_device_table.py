from __future__ import annotations

from pathlib import Path

import pytest

from fleetledger.coordinator.errors import ProvisionError
from fleetledger.coordinator.provisioning.device_table import TableRow, read_table


def table(folder: Path, text: str) -> Path:
    file = folder / "devices.csv"
    file.write_text(text, encoding="utf-8")
    return file


def refusal(folder: Path, text: str) -> str:
    with pytest.raises(ProvisionError) as refused:
        read_table(table(folder, text))
    return str(refused.value)


def test_columns_become_fields_and_tags(tmp_path: Path) -> None:
    text = (
        "name,site,data,evaluation,tags\n"
        "camera-1,orchard-1,/data/images,held-out,line=3 cpu=arm64\n"
        "\n"
        "camera-2,,none,,\n"
    )
    assert read_table(table(tmp_path, text)) == [
        TableRow(
            2,
            "camera-1",
            {"site": "orchard-1", "line": "3", "cpu": "arm64"},
            "/data/images",
            "held-out",
        ),
        TableRow(4, "camera-2", {}, "none", ""),
    ]


def test_what_models_run_on_is_said_for_each_device(tmp_path: Path) -> None:
    rows = read_table(table(tmp_path, "name,variant\norin-1,auto\npi-1,int8\npi-2,\n"))
    assert [(row.variant, row.tags) for row in rows] == [("auto", {}), ("int8", {}), (None, {})]


def test_a_table_of_names_alone_is_enough(tmp_path: Path) -> None:
    (row,) = read_table(table(tmp_path, "name\ncamera-1\n"))
    assert row == TableRow(2, "camera-1", {}, "", "")


def test_what_a_spreadsheet_writes_is_read(tmp_path: Path) -> None:
    rows = read_table(table(tmp_path, '\ufeffName , SITE\r\n"camera-1","a"\r\ncamera-2\r\n'))
    assert [(row.device, row.tags) for row in rows] == [
        ("camera-1", {"site": "a"}),
        ("camera-2", {}),
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("site\na\n", "line 1: the first line has no column 'name'"),
        ("name,a,a\nx,1,2\n", "line 1: column 'a' stands there twice"),
        ("name,Büro\nx,1\n", "line 1: column 'büro': a tag's name is"),
        ("name\ncamera 1\n", "line 2: name: 'camera 1'; give 1 to 64"),
        ("name\na\nb\na\n", "line 4: name: 'a' stands in line 2, too"),
        ("name,site\na,b,c\n", "line 2: 3 fields for 2 columns; put quotation marks"),
        ("name,site\na,no blanks\n", "line 2: site: 'no blanks': a tag's value is"),
        ("name,variant\na,int4\n", "line 2: variant: 'int4'; give one of reference, auto, fp16"),
        ("name,tags\na,quick\n", "line 2: tags: 'quick'; write NAME=VALUE"),
        ("name,tags\na,A=b\n", "line 2: tags: 'A': a name is"),
        ('name\n"a\n', "close the quotation marks"),
        ("name\n", "names no device"),
        ("", "has no column 'name'"),
    ],
)
def test_a_wrong_line_is_named_with_the_way_out(tmp_path: Path, text: str, told: str) -> None:
    assert told in refusal(tmp_path, text)


def test_every_wrong_line_is_named_at_once(tmp_path: Path) -> None:
    said = refusal(tmp_path, "name\n" + "\n".join(f"a {number}" for number in range(25)))
    assert "nothing was done" in said
    assert "line 2: " in said
    assert "line 21: " in said
    assert said.endswith("and 5 more")


def test_a_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    file = tmp_path / "devices.csv"
    file.write_bytes(b"name\n\xff\xfe")
    with pytest.raises(ProvisionError, match="it must be UTF-8 text"):
        read_table(file)
