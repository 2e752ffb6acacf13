"""The console as tests use it: pages by their addresses, watched for everything that must not happen."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, ConsoleMessage, Locator, Page, expect

ROOT = Path(__file__).parents[2]
AXE = ROOT / "console" / "node_modules" / "axe-core" / "axe.min.js"
WITHIN_MS = 30_000
SERIOUS = {"serious", "critical"}
NOTE_VIOLATIONS = """
    window.violations = [];
    addEventListener("securitypolicyviolation", ({ violatedDirective, blockedURI }) =>
        window.violations.push(`${violatedDirective} ${blockedURI}`));
"""

expect.set_options(timeout=WITHIN_MS)


@dataclass
class Console:
    """One browser window on the console of a node. `wrong` must be empty at the end: errors in the browser's console,
    exceptions, violations of the policy. Refusals that a test provokes are announced by `refused`."""

    page: Page
    url: str
    wrong: list[str] = field(default_factory=list)
    refusals: set[int] = field(default_factory=set)

    def open(self, place: str = "") -> Page:
        self.page.goto(f"{self.url}/console/#/{place}")
        return self.page

    def go(self, place: str) -> Page:
        """By the address, as a link does it: the page is not loaded again."""
        self.page.evaluate("place => { location.hash = '#/' + place }", place)
        return self.page

    def refused(self, *statuses: int) -> None:
        self.refusals |= set(statuses)

    def button(self, name: str | re.Pattern[str], inside: Locator | None = None) -> Locator:
        return (inside or self.page).get_by_role("button", name=name, exact=isinstance(name, str))

    def region(self, name: str) -> Locator:
        return self.page.get_by_role("region", name=name, exact=True)

    @property
    def dialog(self) -> Locator:
        return self.page.get_by_role("dialog")

    def said(self, text: str | re.Pattern[str]) -> None:
        expect(self.page.locator(".toast").filter(has_text=text).first).to_be_visible()

    def note(self, message: ConsoleMessage) -> None:
        status = re.search(r"Failed to load resource: .* status of (\d+)", message.text)
        if message.type == "error" and not (status and int(status[1]) in self.refusals):
            self.wrong.append(f"{message.text} ({message.location.get('url')})")

    def check_access(self, *rules: str) -> list[str]:
        """What axe finds that keeps somebody from using the page; by all of its rules, or by some."""
        options = {"resultTypes": ["violations"], **({"runOnly": list(rules)} if rules else {})}
        found: dict[str, Any] = self.page.evaluate("options => axe.run(document, options)", options)
        return [
            f"{one['id']} ({one['impact']}): {node['target']} {node['failureSummary']}"
            for one in found["violations"]
            if one["impact"] in SERIOUS
            for node in one["nodes"]
        ]

    def is_too_wide(self) -> bool:
        return bool(self.page.evaluate("document.documentElement.scrollWidth > innerWidth"))


@contextmanager
def watched(browser: Browser, url: str, **options: Any) -> Iterator[Console]:
    """A window with nothing kept from others; what went wrong in it is an error at its end."""
    with browser.new_context(viewport=options.pop("viewport", {"width": 1440, "height": 900}), **options) as context:
        # By the protocol of the browser, which the policy of the page says nothing about.
        context.add_init_script(script=NOTE_VIOLATIONS)
        context.add_init_script(path=AXE)
        page = context.new_page()
        console = Console(page, url)
        page.on("console", console.note)
        page.on("pageerror", lambda error: console.wrong.append(str(error)))
        yield console
        console.wrong += page.evaluate("window.violations ?? []")
        assert not console.wrong, console.wrong


Windows = Callable[..., Console]
