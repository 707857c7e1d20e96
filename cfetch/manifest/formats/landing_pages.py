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
            r"([^/]+)/(?:dataset\.xhtml|citation)\?persistentId=([^&#]+)",
            r"//\1/api/datasets/:persistentId/?persistentId=\2",
        ),
        (
            r"data\.mendeley\.com/datasets/([a-z0-9]+)/([0-9]+)",
            r"https://data.mendeley.com/public-api/datasets/\1/files?folder_id=root&version=\2",
        ),
        (
            r"(?:v1\.)?datadryad\.org/(?:stash/|resource/)?(?:dataset/)?doi:(10\.[0-9]+)/([\w.-]+)",
            r"https://datadryad.org/api/v2/datasets/doi%3A\1%2F\2",
        ),
        (r"(b2share\.[\w.]+)/records/([\w-]+)", r"https://\1/api/records/\2"),
        (
            r"([^/]+)/items/([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})",  # DSpace from version 7 on
            r"//\1/server/api/core/items/\2/bundles?embed=bitstreams",
        ),
        (r"osf\.io/([a-z0-9]{5})/?\Z", r"https://api.osf.io/v2/nodes/\1/files/osfstorage/"),
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
    for known, address in _PAGES:
        if match := known.match(page):
            scheme = f"{page.partition(':')[0].lower()}:" if address.startswith("//") else ""
            return f"{scheme}{match.expand(address)}"
    return None
