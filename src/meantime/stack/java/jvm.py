"""What the two services that run on Java have in common."""

from pathlib import Path

from meantime.stack.java.archive import ClassArchive

LOGGING = """\
status = error
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{ISO8601} %-5p %c{1}: %m%n
rootLogger.level = warn
rootLogger.appenderRef.console.ref = console
"""


FEW_ARENAS = {"MALLOC_ARENA_MAX": "2"}
"""A hundred threads would make the C library keep memory apart for each of them."""
SMALL_HEAP = ("-Xms32m", "-XX:+UseSerialGC", "-XX:MinHeapFreeRatio=20", "-XX:MaxHeapFreeRatio=40", "-XX:-UsePerfData")
"""Java would begin with a sixty-fourth of the machine's memory and keep what it once had. With heaps of less than a
gigabyte the simplest collector takes the least memory and has the fewest threads."""


def java_command(
    archive: ClassArchive, *, heap: str, home: Path, main: tuple[str, ...], options: tuple[str, ...] = ()
) -> tuple[str, ...]:
    return (
        str(archive.java.executable),
        f"-Xmx{heap}",
        *SMALL_HEAP,
        "-XX:+ExitOnOutOfMemoryError",
        "-Djava.awt.headless=true",
        # Not on the class path: Java makes no archive for one with folders.
        f"-Dlog4j2.configurationFile={home}/log4j2.properties",
        *archive.options(),
        *options,
        *("-cp", archive.path),
        *main,
    )
