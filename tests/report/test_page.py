# SPDX-License-Identifier: Apache-2.0
"""The page of a report in Chromium, by Playwright, without a network. Skipped where one of both is absent; on Debian:

tools/install-packages browser && build/venv/bin/python -m pip install --requirement tests/report/requirements.txt

tools/check does both, where it can.
"""

import contextlib
import json
import os
import re
import shutil
import time

import pytest

from tests.report.models import BYTE_NAMES, TEXT_NAMES, hostile_model
from tests.support import converter

playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed: the page is not tested")
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium")
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed: the page is not tested"),
    pytest.mark.xdist_group("chromium"),
]

DESK, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as started:
        # --no-sandbox: the tests may run as root in a container; the pages are our own.
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    folder = tmp_path_factory.mktemp("duc")
    for command in (
        ["make-model", "duc", "-o", "m.onnx"],
        ["convert", "m.onnx", "-o", "m.tflite", "--report", "r.html"],
        ["convert", "m.onnx", "-o", "m.tflite", "--report", "r.nodes.json"],
        ["inspect", "m.onnx", "--html", "i.html"],
    ):
        assert converter.run(*command, cwd=folder).returncode == 0
    return folder


@contextlib.contextmanager
def opened(browser, path, viewport=DESK, **how):
    """The page; at the end, that it wrote nothing to the console and asked for nothing but itself."""
    context = browser.new_context(offline=True, viewport=viewport, reduced_motion="reduce", **how)
    page = context.new_page()
    said, asked = [], []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("dialog", lambda dialog: said.append(dialog.message))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(path.as_uri())
    page.wait_for_selector("h1:not(:empty)")
    yield page
    assert said == [] and asked == [path.as_uri()]
    assert page.evaluate("window.ran") is None
    context.close()


def is_too_wide(page):
    return page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth")


def says(page, text):
    """Waits for what the line beside the search says. Not by wait_for_function: the page's policy forbids eval."""
    playwright.expect(page.locator(".count")).to_have_text(text)


def chosen(page):
    return page.locator(".row.chosen").inner_text()


def test_sections_and_figures(browser, network):
    with opened(browser, network / "r.html") as page:
        assert page.locator("h1").inner_text() == "m.onnx"
        figures = page.locator(".figures").inner_text()
        assert "353 → 152" in figures and "MiB" in figures
        for section in ("memory", "sizes", "operators", "graph", "transposes", "nodes", "tensors", "run"):
            assert page.locator(f"section#{section}").is_visible()
            page.locator(f"nav a[href='#{section}']").click()
        assert page.locator("#memory svg path.anonymous").count() == 1
        assert page.locator("#sizes svg g").count() > 10


@pytest.mark.parametrize("width", [1280, 500, 390])
def test_lines_are_broken_between_words(width, browser, network):
    with opened(browser, network / "r.html", {"width": width, "height": 900}) as page:
        assert page.locator(".figures .whole").count() == 2
        for part in page.locator(".figures .whole").all():
            assert part.evaluate("part => part.getClientRects().length") == 1
        assert page.evaluate("(bar => bar.scrollWidth <= bar.clientWidth)(document.querySelector('nav'))")


def test_the_ratio_is_that_of_the_summary(browser, network):
    ratio = json.loads((network / "r.html").read_text().split('id="report">')[1].split("</script>")[0])[
        "peak_rss_ratio"
    ]
    with opened(browser, network / "r.html") as page:
        assert f"{ratio:.4f} × the model's bytes" in page.locator(".figures").inner_text()


def test_search_and_keyboard(browser, network):
    with opened(browser, network / "r.html") as page:
        page.keyboard.press("/")
        page.keyboard.type("shortcut")
        says(page, re.compile("^1 of "))
        assert "shortcut" in chosen(page)
        first = chosen(page)
        page.keyboard.press("Enter")
        assert page.locator(".count").inner_text().startswith("2 of ") and chosen(page) != first
        page.keyboard.press("Shift+Enter")
        assert chosen(page) == first
        # An ONNX node that was fused is found where it went.
        page.fill("#search", "stem.relu")
        says(page, "1 of 1")
        assert "CONV_2D" in chosen(page) and "stem.relu" in page.locator(".about").inner_text()
        page.fill("#search", "no such thing")
        says(page, "no match")
        page.locator("#rows").focus()
        page.keyboard.press("Home")
        page.keyboard.press("ArrowDown")
        assert "TRANSPOSE" in chosen(page)
        page.keyboard.press("o")
        assert "PAD" in chosen(page)
        page.keyboard.press("i")
        assert "TRANSPOSE" in chosen(page)
        page.keyboard.press("End")
        assert "TRANSPOSE" in chosen(page) and page.evaluate("document.querySelector('#rows').scrollTop") > 0


def test_collapse_and_jump(browser, network):
    with opened(browser, network / "r.html") as page:
        everything = page.evaluate("document.querySelector('#rows > div').clientHeight")
        page.get_by_role("button", name="Collapse all").click()
        collapsed = page.evaluate("document.querySelector('#rows > div').clientHeight")
        assert collapsed < everything / 5
        assert page.locator("#rows [aria-expanded='true']").count() == 0
        row = page.locator(".row.scope", has_text="stage3")
        row.click()
        assert page.evaluate("document.querySelector('#rows > div').clientHeight") > collapsed
        page.keyboard.press("ArrowLeft")
        assert page.evaluate("document.querySelector('#rows > div').clientHeight") == collapsed
        # From the table of transposes to a row inside of a scope, and along its edges.
        page.get_by_role("button", name="Collapse all").click()
        page.locator("#transposes button.link").last.click()
        assert "TRANSPOSE" in chosen(page)
        page.locator(".about button.link").first.click()
        assert "SOFTMAX" in chosen(page)
        page.get_by_role("button", name="Expand all").click()
        assert page.evaluate("document.querySelector('#rows > div').clientHeight") == everything
        assert "SOFTMAX" in chosen(page)


def test_sort(browser, network):
    with opened(browser, network / "r.html") as page:
        table = page.locator("#tensors")
        names = lambda: table.locator("tbody tr td:first-child").all_inner_texts()  # noqa: E731
        assert len(names()) < 50
        table.get_by_role("button", name="Show all").click()
        assert len(names()) == 50
        table.locator("th").first.get_by_role("button").click()
        assert names() == sorted(names()) and table.locator("th").first.get_attribute("aria-sort") == "ascending"
        table.locator("th").first.get_by_role("button").click()
        assert table.locator("th").first.get_attribute("aria-sort") == "descending"
        table.locator("th", has_text="bytes").get_by_role("button").click()
        sizes = table.locator("tbody td.number").all_inner_texts()
        assert sizes[0] == "22.4 MB" and len(sizes) == 50


def test_sizes_lead_to_the_graph(browser, network):
    with opened(browser, network / "r.html") as page:
        page.locator("#sizes .chips button", has_text="stage4").click()
        assert page.locator("#sizes svg").get_attribute("aria-label").startswith("Sizes of the constants in all/stage4")
        page.locator("#sizes .chips button", has_text="all").first.click()
        page.locator("#sizes .chips button", has_text="aspp6").click()
        page.locator("#sizes .chips button", has_text="constant").first.click()
        assert "aspp6" in chosen(page)


def test_colours_and_run_times(browser, network, tmp_path):
    with opened(browser, network / "r.html") as page:
        kinds = page.locator("#rows svg circle").first.get_attribute("class")
        page.select_option("#colour", "weights")
        assert page.locator("#rows svg circle").first.get_attribute("class") != kinds
        page.set_input_files("#timings", network / "r.nodes.json")
        says(page, re.compile("run times"))
        page.select_option("#colour", "time")
        assert "37888" in page.locator(".row", has_text="CONV_2D").first.inner_text()
        (tmp_path / "bad.json").write_text('{"a": ')
        page.set_input_files("#timings", tmp_path / "bad.json")
        says(page, re.compile("^not node data"))


@pytest.mark.parametrize("name", ["r.html", "i.html"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("viewport", [DESK, PHONE], ids=["desk", "phone"])
def test_widths_and_accessibility(browser, network, name, scheme, viewport):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-core is not installed")
    with opened(browser, network / name, viewport, color_scheme=scheme) as page:
        assert not is_too_wide(page)
        background = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (sum(map(int, background[4:-1].split(","))) > 384) == (scheme == "light"), background
        found = axe.Axe().run(page).response["violations"]
        serious = [fault for fault in found if fault["impact"] in ("serious", "critical")]
        assert serious == [], [(fault["id"], [node["html"][:200] for node in fault["nodes"][:3]]) for fault in serious]


def test_print(browser, network):
    with opened(browser, network / "r.html") as page:
        page.emulate_media(media="print")
        assert not page.locator("#rows").is_visible() and page.locator(".only-print").is_visible()
        assert page.pdf()[:4] == b"%PDF"


def test_hostile_names_are_shown_and_nothing_runs(browser, tmp_path):
    (tmp_path / "m.onnx").write_bytes(hostile_model())
    for command in (
        ["convert", "m.onnx", "-o", "m.tflite", "--report", "r.html"],
        ["inspect", "m.onnx", "--html", "i.html"],
        ["inspect", "m.tflite", "--html", "t.html"],
    ):
        assert converter.run(*command, cwd=tmp_path).returncode == 0
    shown = {
        "right\u202eotfel\u202c": "right⟨U+202E⟩otfel⟨U+202C⟩",
        "\u2066isolate\u2069\u200f": "⟨U+2066⟩isolate⟨U+2069⟩⟨U+200F⟩",
        "zero\u200bwidth\ufeff\u2060": "zero⟨U+200B⟩width⟨U+FEFF⟩⟨U+2060⟩",
        "line\u2028end\u2029": "line⟨U+2028⟩end⟨U+2029⟩",
        "escape\x1b[2J\x07": "escape⟨U+001B⟩[2J⟨U+0007⟩",
        "nul\0inside": "nul\\x00inside",  # as in the TFLite file, where strings end at a zero
        "c1\x9b31\x7f": "c1⟨U+009B⟩31⟨U+007F⟩",
        "tag\U000e0041\U000e007f": "tag⟨U+E0041⟩⟨U+E007F⟩",
        "n" * 65536: "n" * 300 + "… (65,536 characters)",
    }
    for name in ("r.html", "i.html", "t.html"):
        for viewport in (DESK, PHONE):
            with opened(browser, tmp_path / name, viewport) as page:
                assert not is_too_wide(page)
                assert page.locator("h1").count() == 1 and page.locator("img, svg[onload], b").count() == 0
                page.get_by_role("button", name="Expand all").click()
                text = page.evaluate(
                    """() => {
                      const out = [], list = document.querySelector('#rows');
                      for (let top = 0; top < list.scrollHeight; top += 100) {
                        list.scrollTop = top;
                        list.dispatchEvent(new Event('scroll'));
                        out.push(list.textContent);
                      }
                      return out.join('\\n');
                    }"""
                )
                for hostile in TEXT_NAMES:
                    wanted = shown.get(hostile, hostile)
                    assert wanted in text, (name, hostile[:80])
                assert text.count("\ufffd") >= len(BYTE_NAMES)


def test_strange_graphs(browser, tmp_path):
    import onnx
    from onnx import TensorProto, helper

    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, "n"]) for name in "xy")
    graphs = {
        "empty": helper.make_graph([], "empty", [x], [x]),
        "refused": helper.make_graph([helper.make_node("__proto__", ["x"], ["y"], domain="a")], "g", [x], [y]),
        "one": helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "one", [x], [y]),
    }
    for name, graph in graphs.items():
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid("a", 1)]
        onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), tmp_path / f"{name}.onnx")
        done = converter.run("convert", f"{name}.onnx", "--report", f"{name}.html", cwd=tmp_path)
        assert done.returncode == (8 if name == "refused" else 0), done
        assert converter.run("inspect", f"{name}.onnx", "--html", f"{name}_i.html", cwd=tmp_path).returncode == 0
        for page_name in (f"{name}.html", f"{name}_i.html"):
            with opened(browser, tmp_path / page_name) as page:
                assert not is_too_wide(page)
                if name == "refused":
                    assert "a.__proto__" in page.locator("main").inner_text()


def test_100_000_operators(browser, tmp_path, record_property):
    done = converter.run("make-model", "many-nodes", "--nodes", "100000", "-o", "m.onnx", cwd=tmp_path)
    assert done.returncode == 0, done
    assert converter.run("inspect", "m.onnx", "--html", "i.html", cwd=tmp_path).returncode == 0
    begun = time.monotonic()
    with opened(browser, tmp_path / "i.html") as page:
        # docs/report.md has the time on an idle machine; here others may be at work.
        record_property("seconds until the page of 100,000 operators is open", round(time.monotonic() - begun, 1))
        assert page.locator(".row").count() < 100
        page.fill("#search", "block24999.silu")
        says(page, "1 of 1")
        assert "block24999.silu" in chosen(page)
        page.get_by_role("button", name="Collapse all").click()
        page.get_by_role("button", name="Expand all").click()
        page.locator("#rows").focus()
        page.keyboard.press("Home")
        page.keyboard.press("End")
        assert page.locator(".row").count() < 100
    assert json.loads((tmp_path / "i.html").read_text().split('id="report">')[1].split("</script>")[0])["version"] == 1
