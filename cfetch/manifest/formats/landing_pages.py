"""The addresses of lists that belong to pages which people copy from their browser."""

import re

from cfetch.base.schemes import WEB_PATTERN

_PAGES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(rf"{WEB_PATTERN}://(?:www\.)?{page}", re.IGNORECASE), list_address)
    for page, list_address in (
        (r"(zenodo\.org)/records?/([0-9]+)", r"https://\1/api/records/\2"),
        (
            r"(?:[\w-]+\.)?figshare\.com/articles/[^?#]*?/([0-9]+)(?:/|\Z|\?|#)",
            r"https://api.figshare.com/v2/articles/\1",
        ),
        (
            r"([^/]+)/dataset\.xhtml\?persistentId=([^&#]+)",
            r"https://\1/api/datasets/:persistentId/?persistentId=\2",
        ),
        (
            r"github\.com/([^/]+)/([^/]+)/releases/tag/([^/?#]+)",
            r"https://api.github.com/repos/\1/\2/releases/tags/\3",
        ),
        (
            r"github\.com/([^/]+)/([^/]+)/releases(?:/latest)?/?\Z",
            r"https://api.github.com/repos/\1/\2/releases/latest",
        ),
        (r"huggingface\.co/datasets/([^/?#]+)/([^/?#]+)", r"hf://datasets/\1/\2/"),
        (r"huggingface\.co/(?!datasets/|spaces/)([^/?#]+)/([^/?#]+)/?\Z", r"hf://\1/\2/"),
    )
)


def find_list_address(page: str) -> str | None:
    """The address of the list that belongs to a page; None: it is not known."""
    return next((match.expand(address) for known, address in _PAGES if (match := known.match(page))), None)
