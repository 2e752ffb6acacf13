"""The pages of the documentation: their blocks of code, in order, and which of them cannot run in a test, and why.

A page may say which stack its blocks need: `<!-- stack: timers -->`; without that it is the shared cluster. A block that
cannot run says so on the line before it: `<!-- not run: reason -->`.
"""

import re
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
LOCAL = "http://127.0.0.1:8080"
"""Where pages say that a node is; tests put one of theirs in its place."""

STACK = re.compile(r"^<!-- stack: (\w+) -->$", re.MULTILINE)
BLOCK = re.compile(
    r"^(?:<!-- not run: (?P<reason>[^\n]+) -->\n)?```(?P<language>\S*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)
NAMES = re.compile(r"\b(orders|users|reminders|clicks|mails|alarms|parcels|guide)\b")
"""Of event types, topics and applications. Each page gets its own: all pages run on the same cluster."""
RUNNERS = {
    "python": ("python", "", "python -"),
    "javascript": ("node", "", "node --input-type=module -"),
    "go": ("go", "example.go", "CGO_ENABLED=0 GOTOOLCHAIN=local go run example.go"),
    "java": ("javac", "Example.java", "java Example.java"),
}
"""Of languages other than bash: the tool that it takes, the file that a block is kept in, and the command that runs it. A
block whose tool is not there is left out, and the output says so."""
RUNNABLE = ("bash", *RUNNERS)


@dataclass(frozen=True, slots=True)
class Block:
    language: str
    text: str
    not_run: str | None


@dataclass(frozen=True, slots=True)
class Page:
    path: Path
    stack: str
    blocks: tuple[Block, ...]

    @property
    def name(self) -> str:
        return self.path.relative_to(ROOT).as_posix()

    def runnable(self, **replaced: str) -> list[Block]:
        """What runs, in order and with names of its own; blocks of Python that follow each other are one."""
        run = [block for block in self.blocks if block.language in RUNNABLE and block.not_run is None]
        return [
            Block(language, self._own("\n".join(block.text for block in blocks), replaced), None)
            for language, blocks in groupby(run, key=lambda block: block.language)
        ]

    def script(self, **replaced: str) -> str:
        """The whole page as a script of bash."""
        return "\n".join(_for_bash(block) for block in self.runnable(**replaced))

    def _own(self, text: str, replaced: dict[str, str]) -> str:
        for old, new in replaced.items():
            text = text.replace(old, new)
        return NAMES.sub(rf"\1-{self.path.stem.lower()}", text)


def _for_bash(block: Block) -> str:
    if block.language == "bash":
        return block.text
    tool, file, command = RUNNERS[block.language]
    text = f"<<'END_OF_BLOCK'\n{block.text}END_OF_BLOCK\n"
    run = f"cat > {file} {text}{command}\n" if file else f"{command} {text}"
    return f"if command -v {tool} > /dev/null; then\n{run}else echo '{tool} is not installed: an example is left out'; fi\n"


def read_page(path: Path) -> Page:
    text = path.read_text("utf-8")
    stack = STACK.search(text)
    blocks = tuple(Block(found["language"], found["text"], found["reason"]) for found in BLOCK.finditer(text))
    return Page(path, stack[1] if stack else "cluster", blocks)


def pages_on(stack: str) -> list[Page]:
    """Those with something to run there."""
    return [page for page in map(read_page, PAGES) if page.stack == stack and page.runnable()]
