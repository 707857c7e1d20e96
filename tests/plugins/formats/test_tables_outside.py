"""Tables as people have them: several files in a row, URLs made of columns, relative links, workbooks."""

import pytest

from cfetch.base.config.reading import ReadingOptions
from cfetch.base.config.settings import Settings
from cfetch.base.errors import UsageError
from tests.cli.verbs import cfetch
from tests.manifest.sample import MD5, H, make_workbook
from tests.plugins.formats.test_lists_outside import BASE, entries_of

SHEET = f"sample,fastq_1,fastq_2,size\ns1,{H}1_1.gz,{H}1_2.gz,5\ns2,{H}2_1.gz,,5\n"
GDC = f"id\tfilename\tmd5\tsize\nx y/1\ta.bam\t{MD5}\t4\n"


def test_a_row_has_a_file_for_each_of_several_columns(frozen):
    """A size cannot be that of all of them, and an empty cell is no file."""
    options = ReadingOptions(url_column="fastq_1", more_url_columns=("fastq_2",))
    plan = frozen(SHEET, "samples.csv", options=options)
    assert [entry[1:3] for entry in entries_of(plan)] == [
        ("1_1.gz", None),
        ("1_2.gz", None),
        ("2_1.gz", None),
    ]
    assert any("left out: 'size', 'sample'" in note for note in plan.notes)


async def test_the_option_for_columns_is_repeated_and_stays_one_name_for_one(tmp_path):
    """A program that states one column has a text, as before."""
    path = tmp_path / "samples.csv"
    path.write_text(SHEET)
    ended = await cfetch(
        "manifest", "check", "--json", "--url-column", "fastq_1", "--url-column", "fastq_2", path
    )
    assert (ended.code, ended.document["files"]) == (0, 3)
    assert Settings(url_column=("a",)).url_column == Settings(url_column="a").url_column == "a"
    assert Settings(url_column=("a", "b")).reading.more_url_columns == ("b",)


@pytest.mark.parametrize(
    ("template", "url"),
    [
        ("https://api.example/data/{id}", "https://api.example/data/x%20y/1"),
        ("https://api.example/get?id={id}&f={filename}", "https://api.example/get?id=x%20y%2F1&f=a.bam"),
        ("s3://bucket/{md5}/{filename}", f"s3://bucket/{MD5}/a.bam"),
    ],
)
def test_a_template_makes_urls_of_columns(frozen, template, url):
    """What it takes of a row is encoded, and keeps its own meaning."""
    plan = frozen(GDC, "gdc.txt", options=ReadingOptions(url_template=template))
    assert entries_of(plan) == [(url, "a.bam", 4, f"md5:{MD5}")]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"url_template": H}, "names of columns in braces"),
        ({"url_template": H + "{id}", "url_column": "id"}, "has nothing to name"),
        ({"url_column": "id", "more_url_columns": ("md5",), "path_column": "filename"}, "path, size or hash"),
    ],
)
def test_options_that_contradict_each_other_are_refused(frozen, given, words):
    """Neither may win silently."""
    with pytest.raises(UsageError, match=words):
        frozen(GDC, "gdc.txt", options=ReadingOptions(**given))


@pytest.mark.parametrize(
    ("text", "given", "words"),
    [
        (GDC, {"url_template": H + "{ID}"}, "there is no column 'ID' for --url-template"),
        (f"a,b,c\n1,{H}x,{H}y\n", {}, "links stand in 'b', 'c'"),
    ],
)
def test_a_table_without_urls_says_where_links_stand(error_of, text, given, words):
    """The user then knows which column to name."""
    assert words in error_of(text, "x.csv", options=ReadingOptions(**given)).problems[0].message


@pytest.mark.parametrize("both", [{}, {"path_column": "File"}])
def test_relative_links_of_a_table_keep_their_directories(frozen, both):
    """As those of a plain list; one column may be named for both."""
    options = ReadingOptions(url_column="File", **both)
    plan = frozen(
        "File,n\nx/a%20b.gz,1\ny/a.gz,2\n" if not both else "File,n\nx/a.gz,1\n",
        "oa.csv",
        base_url=BASE,
        options=options,
    )
    paths = [entry[1] for entry in entries_of(plan)]
    assert paths == (["x/a.gz"] if both else ["x/a b.gz", "y/a.gz"])


def test_the_first_sheet_of_a_workbook_is_a_table(frozen, error_of):
    """Numbers of a spreadsheet are whole; a damaged workbook is called one."""
    data = make_workbook(("url", "size"), (H + "a", 12), (H + "b", 3))
    assert [entry[:3] for entry in entries_of(frozen(data, "x.xlsx"))] == [
        (H + "a", "a", 12),
        (H + "b", "b", 3),
    ]
    assert "workbook of a spreadsheet" in error_of(data[:-80], "x.xlsx").problems[0].message


@pytest.mark.parametrize("mark", [" ", " | ", ";", "; ", ","])
def test_a_cell_of_several_links_is_a_file_for_each(frozen, monkeypatch, mark):
    """It was read as one URL, which no server knows; also where the rows before it are plain."""
    monkeypatch.setattr("cfetch.manifest.reading.LONG_BYTES", 0)  # plain rows are sought in long lists
    plain = "".join(f"x,{H}{number}.bin\n" for number in range(3))
    quote = '"' if mark == "," else ""
    table = f"name,url\n{plain}y,{quote}{H}a.bin{mark}{H}b.bin{quote}\n"
    plan = frozen(table, "a.csv")
    assert [entry[1] for entry in entries_of(plan)] == ["0.bin", "1.bin", "2.bin", "a.bin", "b.bin"]


@pytest.mark.parametrize(
    ("row", "word"),
    [
        (f"{H}a.bin;{H}b.bin,5", "links of several files, beside a path, size or hash"),
        (f"{H}a?x=1;{H}b,", "one link or several: percent-encode"),
    ],
)
def test_a_cell_of_links_that_may_mean_two_things_is_refused(error_of, row, word):
    """A size is that of one file, and a query may hold another link."""
    [problem] = error_of(f"url,size\n{H}0,1\n{H}1,2\n{row}\n", "a.csv").problems
    assert (problem.line, word in problem.message) == (4, True)
