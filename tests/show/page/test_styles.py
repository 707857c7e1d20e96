"""The colours of the page: bars, curves and texts can be seen in both schemes."""

import re
from importlib.resources import files

import pytest

CSS = (files("cfetch.show.page") / "assets" / "page.css").read_text(encoding="utf-8")
LIGHT, DARK = (dict(re.findall(r"--(\w+): (#[0-9a-f]{6});", block)) for block in CSS.split(":root {")[1:])
SHAPES = ("done", "cut", "error", "helper", "active", *(f"layer{number}" for number in range(1, 8)))
TEXTS = ("ink", "muted", "good", "bad", "accent")


def luminance(colour):
    """The relative luminance of WCAG 2."""
    parts = [int(colour[index : index + 2], 16) / 255 for index in (1, 3, 5)]
    red, green, blue = (
        part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(first, second):
    light, dark = sorted((luminance(first), luminance(second)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("scheme", [LIGHT, DARK], ids=["light", "dark"])
def test_shapes_have_a_contrast_of_three_and_texts_of_four_and_a_half(scheme):
    """To the paper of a section and to the ground of the page; bars of tables also to their track."""
    grounds = [scheme["paper"], scheme["ground"]]
    assert min(contrast(scheme[name], ground) for name in SHAPES for ground in grounds) >= 3
    assert min(contrast(scheme[name], ground) for name in TEXTS for ground in grounds) >= 4.5
    assert min(contrast(scheme[name], scheme["grid"]) for name in ("layer1", "cut")) >= 3
