"""A list as people have it, as a small sample of its real shape."""

import io
import json
import zipfile
from typing import NamedTuple

SHA = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
MD5 = "098f6bcd4621d373cade4e832627b4f6"
MD5_BASE64 = "CY9rzUYh03PK3k6DJie09g=="  # the same
H = "https://h.example/"
BASE = "https://h.example/d/"
TO_BASE = f"--base-url {BASE}"
AB = ("a.jpg", "b.jpg")
URLS = [H + name for name in AB]


class Sample(NamedTuple):
    """``paths``: those of the entries that it gives; ``refusal``: words of the message if it is refused."""

    name: str
    file: str
    content: bytes
    paths: tuple[str, ...] = ()
    refusal: str = ""
    flags: str = ""
    own_url: str | None = None


def to_text(*lines: str) -> bytes:
    """These lines."""
    return "".join(f"{line}\n" for line in lines).encode()


def to_json(value: object) -> bytes:
    """The value as a document."""
    return json.dumps(value, indent=1).encode()


def to_urls(*names: str) -> list[str]:
    """The address of each file."""
    return [H + name for name in names]


def make_workbook(*rows: tuple[str | int, ...]) -> bytes:
    """A workbook (.xlsx) with one sheet of these cells."""
    main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    relations = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    package = "http://schemas.openxmlformats.org/package/2006/relationships"
    office = "application/vnd.openxmlformats-officedocument.spreadsheetml"
    cells = "".join(
        "<row>"
        + "".join(
            f"<c><v>{cell}</v></c>"
            if isinstance(cell, int)
            else f'<c t="inlineStr"><is><t>{cell}</t></is></c>'
            for cell in row
        )
        + "</row>"
        for row in rows
    )
    parts = {
        "[Content_Types].xml": (
            '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
            f'<Override PartName="/xl/workbook.xml" ContentType="{office}.sheet.main+xml"/>'
            f'<Override PartName="/xl/worksheets/sheet1.xml" ContentType="{office}.worksheet+xml"/></Types>'
        ),
        "_rels/.rels": (
            f'<Relationships xmlns="{package}"><Relationship Id="rId1" Type="{relations}/officeDocument" '
            'Target="xl/workbook.xml"/></Relationships>'
        ),
        "xl/workbook.xml": (
            f'<workbook xmlns="{main}" xmlns:r="{relations}"><sheets>'
            '<sheet name="a" sheetId="1" r:id="rId1"/></sheets></workbook>'
        ),
        "xl/_rels/workbook.xml.rels": (
            f'<Relationships xmlns="{package}"><Relationship Id="rId1" Type="{relations}/worksheet" '
            'Target="worksheets/sheet1.xml"/></Relationships>'
        ),
        "xl/worksheets/sheet1.xml": f'<worksheet xmlns="{main}"><sheetData>{cells}</sheetData></worksheet>',
    }
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, text in parts.items():
            archive.writestr(zipfile.ZipInfo(name), '<?xml version="1.0" encoding="UTF-8"?>' + text)
    return file.getvalue()
