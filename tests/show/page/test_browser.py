"""The page in a real browser: it draws everything, asks for nothing, and shows names as text."""

import msgspec
import pytest

from cfetch.base.events import RunFinished
from cfetch.base.records import EventRecord
from cfetch.plugins.monitors.page_server import PageServer, read_address
from cfetch.show.page.html import write_html
from cfetch.show.page.runs_page import make_runs_page
from cfetch.show.summary import Tally
from tests.show.page.browser_fixtures import browser, in_browser, open_page  # noqa: F401 - fixtures
from tests.show.page.runs import played, recorded
from tests.show.page.test_other_pages import bench_page, policies_page, tuning_page
from tests.show.records import active, attempt, finished, progress, record, started

pytestmark = in_browser
HOSTILE = (
    "</script><script>alert(1)</script>\"'&<img src=x onerror=alert(2)>\x00\x1b[31m\u2028\u202e{{script}}"
)


@pytest.fixture
def show(tmp_path, open_page):  # noqa: F811
    async def show_runs(*runs, **options):
        path = tmp_path / "page.html"
        write_html(make_runs_page(runs), path)
        return await open_page(path.as_uri(), **options)

    return show_runs


async def painted(page, selector):
    """How many different colours a canvas shows."""
    return await page.eval_on_selector(
        selector,
        """canvas => new Set(new Uint32Array(
            canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data.buffer)).size""",
    )


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
async def test_the_page_of_a_run_draws_every_chart_and_asks_for_nothing(show, width, scheme):
    """Cards, charts and tables are there; nothing is wider than the screen; no request leaves the page."""
    page = await show(recorded(played()), width=width, scheme=scheme)
    assert await page.locator("dl.card").count() == 4
    assert await page.locator("dl.minor").count() == 5
    assert await page.locator("main section").first.locator(".verdict").is_visible()
    for kind in ("is-timeline", "is-throughput", "is-file-times"):
        assert await painted(page, f".{kind} .uplot canvas") > 10
    headings = await page.locator("h3").all_inner_texts()
    assert {"Attempts", "Throughput and slots in use", "Stragglers", "Hosts", "Failures"} <= {*headings}
    assert await page.evaluate("document.documentElement.scrollWidth") == width
    assert page.requests == []
    wide = (
        "[...document.querySelectorAll('.scrolled')].filter(box => box.scrollWidth > box.clientWidth).length"
    )
    assert await page.evaluate(wide) == 0
    lines = (
        "[...document.querySelectorAll('.path, .card dd, nav')].filter(each => each.offsetHeight > 44).length"
    )
    assert await page.evaluate(lines) == 0


@pytest.mark.parametrize("span", [(0.36, 0.44), (0.2, 1.1), (0.9, 9.0), (0.05, 5.0), (1e-3, 4e4)])
async def test_an_axis_of_times_has_round_numbers_whatever_it_spans(show, span):
    """At least three and at most eight, within the axis, each once."""
    page = await show(recorded([record(0, 100, attempt())]))
    times = await page.evaluate("([low, high]) => chooseTimes(low, high, 8)", list(span))
    assert 3 <= len(times) <= 8
    assert times == sorted(set(times))
    assert span[0] <= times[0] < times[-1] <= span[1]
    shown = await page.evaluate("times => times.map(formatTime)", times)
    assert len(set(shown)) == len(times)


async def test_a_long_table_shows_its_first_rows_and_the_others_on_demand(show):
    """No table scrolls within the page."""
    page = await show(recorded(played()))
    table = page.locator("section", has=page.get_by_role("heading", name="Stragglers"))
    assert await table.locator("tbody tr").count() == 12
    await table.get_by_role("button", name="Show all").click()
    assert await table.locator("tbody tr").count() > 12
    assert await table.get_by_role("button").count() == 0


async def test_a_button_does_not_hide_a_row_or_two(tmp_path, open_page):  # noqa: F811
    """The thirteenth figure of a bench is whether its files are right."""
    write_html(bench_page(), tmp_path / "page.html")
    page = await open_page((tmp_path / "page.html").as_uri())
    assert await page.get_by_role("rowheader", name="files done").is_visible()


async def test_hosts_that_end_at_different_times_are_drawn(show):
    """One is done at once, the other takes minutes: both are in the chart and in the table."""
    short = record(0, 1000, attempt(end_s=0.02, size=1000), host="127.0.0.1")
    slow = record(1, 10**7, attempt(end_s=170.0, size=10**7), host="127.0.0.2")
    page = await show(recorded([short, slow], files=2))
    for kind in ("is-timeline", "is-throughput"):
        assert await painted(page, f".{kind} .uplot canvas") > 4
    text = await page.locator(".is-throughput").inner_text()
    assert "127.0.0.1" in text
    assert "127.0.0.2" in text


async def test_the_policy_forbids_every_request_and_foreign_script(show):
    """Even a script of the page itself could not reach the network, and markup from a name would not run."""
    page = await show(recorded([record(0, 100, attempt())]))
    assert (
        await page.evaluate("fetch('http://127.0.0.1:9/').then(() => 'sent', () => 'forbidden')")
        == "forbidden"
    )
    await page.evaluate("""() => {
        const script = document.createElement('script');
        script.textContent = 'window.foreign = true';
        document.body.append(script);
    }""")
    assert await page.evaluate("window.foreign") is None
    assert all("Content Security Policy" in line for line in page.said)
    assert {line.split()[0] for line in page.said} >= {"Connecting", "Executing"}
    page.said.clear()


async def test_names_stay_text(show):
    """Markup, quotes, control characters and direction overrides in names are shown, and do nothing."""
    hostile = record(0, 100, attempt(), path=HOSTILE, host=HOSTILE)
    failed = msgspec.structs.replace(hostile, id=1, status="failed", error_kind=HOSTILE, error=HOSTILE)
    event = EventRecord(kind="pause", t_s=0.5, host=HOSTILE, reason=HOSTILE)
    page = await show(recorded([hostile, failed, event], version=HOSTILE, settings={"base_url": HOSTILE}))
    text = await page.locator("main").text_content()
    assert text.count("<img src=x onerror=alert(2)>") >= 4
    assert not {"\x00", "\x1b", "\u2028", "\u202e"} & {*text}
    assert await page.locator("img").count() == 0
    assert await page.locator("script").count() == 2


async def test_the_timeline_is_read_by_keyboard(show):
    """Arrows walk through the attempts and tell each file's whole story; plus zooms, Escape goes back."""
    slow = attempt(1, 0.0, 9.0, size=10, outcome="straggler", samples=[(4.5, 5), (9.0, 10)])
    page = await show(recorded([record(0, 100, slow, attempt(2, 9.0, 10.0, from_byte=10, size=90))]))
    chart, story = page.locator(".is-timeline .chart"), page.locator(".is-timeline .story")
    await chart.focus()
    await page.keyboard.press("ArrowRight")
    assert "a/0" in await story.inner_text()
    assert "try 1: 0.0s to 9.0s" in await story.inner_text()
    assert "sooner" in await story.inner_text()
    whole = await chart.screenshot()
    await page.keyboard.press("+")
    assert await chart.screenshot() != whole
    await page.keyboard.press("Escape")
    assert await chart.screenshot() == whole


async def test_the_pointer_finds_the_bar_below_it(show):
    """Hovering over the middle of a single bar tells its file."""
    page = await show(recorded([record(0, 100, attempt(end_s=10.0))]))
    await page.locator(".is-timeline .u-over").hover()
    assert "a/0" in await page.locator(".is-timeline .story").inner_text()


async def test_the_command_for_what_is_left_is_copied_by_one_click(show):
    """To the clipboard, word by word."""
    failed = record(0, 9, attempt(), status="failed", error_kind="refused", error="HTTP 404")
    page = await show(recorded([failed], destination="/d/my data"))
    await page.get_by_role("button", name="Copy").click()
    assert await page.locator(".command button").inner_text() == "Copied"
    await page.evaluate("""() => {
        const area = document.body.appendChild(document.createElement('textarea'));
        area.focus();
    }""")
    await page.keyboard.press("Control+v")
    pasted = await page.locator("textarea").input_value()
    assert pasted == await page.locator(".command code").inner_text()
    assert pasted.startswith("cfetch download MANIFEST --to '/d/my data' --failed-from /")


@pytest.mark.parametrize("make_page", [bench_page, tuning_page, policies_page])
async def test_other_pages_are_drawn_too(make_page, tmp_path, open_page):  # noqa: F811
    """No error, no request, no section that is empty, nothing wider than the screen."""
    path = tmp_path / "page.html"
    write_html(make_page(), path)
    page = await open_page(path.as_uri(), width=390)
    assert page.requests == []
    heights = "[...document.querySelectorAll('section')].map(section => section.offsetHeight)"
    assert min(await page.evaluate(heights)) > 40
    assert await page.evaluate("document.documentElement.scrollWidth") == 390


async def test_a_run_under_way_is_shown_and_stays_when_it_has_ended(open_page):  # noqa: F811
    """The page draws the first document, takes new ones without losing its zoom, and keeps the last."""
    first, second = finished(record(0, 100, attempt(end_s=4.0)), record(1, 100, attempt(1, 4.0, 8.0)))
    tally = Tally()
    with PageServer(read_address("0"), None) as server:
        for event in (started(files=2), first, progress(5.0, done=1, active=[active(1)])):
            server(event)
            tally(event)
        page = await open_page(server.url)
        await page.locator(".is-timeline .uplot canvas").wait_for()
        assert "1 of 2 files in place" in await page.locator(".live").inner_text()
        await page.locator("details summary").first.click()
        tally(second)
        for event in (second, RunFinished(t_s=8.0, summary=tally.summary(8.0))):
            server(event)
    await page.get_by_text("completed: 2 of 2 files in place").wait_for()
    assert await page.locator("dl.card .value").last.inner_text() == "2"
    assert "All 2 files are in place" in await page.locator(".verdict").inner_text()
    assert {request.partition("/events")[1] for request in page.requests} == {"/events"}
    page.said[:] = [line for line in page.said if "ERR_" not in line]  # the server has gone, as it should


async def test_a_line_does_not_break_within_the_name_of_an_option(show):
    """The hyphens of ``--no-mitigation`` are no places for a break, wherever a text names it."""
    page = await show(recorded(played()), width=390)
    heights = """() => Array.from({ length: 40 }, (_, n) => {
        const text = el("p", { textContent: `${"x".repeat(n)} --limit-rate-per-host and --no-mitigation` });
        document.querySelector(".verdict").append(text);
        return [...text.querySelectorAll(".option")].map((name) => name.getClientRects().length);
    })"""
    assert await page.evaluate(heights) == [[1, 1]] * 40


@pytest.mark.parametrize("width", [1280, 390])
async def test_the_axis_of_dots_is_that_of_its_tracks(open_page, tmp_path, width):  # noqa: F811
    """Without names of series too, the number 1 of the axis stands above the mark at 1."""
    write_html(tuning_page(), tmp_path / "page.html")
    page = await open_page((tmp_path / "page.html").as_uri(), width=width)
    axis, track = [
        await page.eval_on_selector(name, "each => [each.offsetWidth, each.getBoundingClientRect().left]")
        for name in (".dots-axis", ".dots-track")
    ]
    assert axis == track
