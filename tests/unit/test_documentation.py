"""What can be checked of the documentation without running it. The examples run in `tests/system/test_docs.py`."""

import re
from pathlib import Path
from urllib.parse import unquote

import pytest
from doc_pages import PAGES, ROOT, RUNNABLE, read_page

from meantime import AsyncClient, Client

LINK = re.compile(r"(?<!!)\[[^\]]+\]\(([^)\s]+)\)")
CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.MULTILINE | re.DOTALL)
WRITTEN_FOR_PEOPLE = [page for page in PAGES if page.parent.name != "adr"]
LANGUAGES = {*RUNNABLE, "text", "toml", "sql", "json", "yaml"}


def prose(page: Path) -> str:
    return CODE.sub("", page.read_text("utf-8"))


def anchors(page: Path) -> set[str]:
    """As GitHub makes them of headings."""
    headings = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    for link in LINK.findall(prose(page)):
        if link.startswith(("http://", "https://", "mailto:")):
            continue
        path, _, anchor = unquote(link).partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.is_file(), f"{link} leads nowhere"
        assert not anchor or anchor in anchors(target), f"{link}: there is no such heading"


def test_every_page_is_in_the_index() -> None:
    index = ROOT / "docs" / "README.md"
    linked = {(index.parent / link.partition("#")[0]).resolve() for link in LINK.findall(index.read_text("utf-8"))}
    assert [page.name for page in (ROOT / "docs").glob("*/*.md") if page.resolve() not in linked] == []


def test_every_block_says_what_it_is_and_few_are_not_run() -> None:
    blocks = [(page, block) for page in map(read_page, WRITTEN_FOR_PEOPLE) for block in page.blocks]
    strange = [
        f"{page.name}: {block.language or 'no language'}" for page, block in blocks if block.language not in LANGUAGES
    ]
    assert strange == []
    runnable = [block for _, block in blocks if block.language in RUNNABLE]
    assert sum(block.not_run is not None for block in runnable) < len(runnable) / 5


def test_every_page_can_be_read_in_one_go() -> None:
    written = [page for page in PAGES if "Written by `make docs`" not in page.read_text("utf-8")]
    assert {page.name for page in written if len(page.read_text("utf-8").splitlines()) > 150} == set()


def test_the_reference_of_the_client_names_every_method_of_both_kinds() -> None:
    text = (ROOT / "docs" / "reference" / "sdk.md").read_text("utf-8")
    methods = {name for kind in (Client, AsyncClient) for name in vars(kind) if not name.startswith("_")}
    named = {name.partition("(")[0] for name in re.findall(r"`([\w]+(?:\([^`]*\))?)`", text)}
    assert methods - named == set()
