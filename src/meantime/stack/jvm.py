"""What the two services that run on Java have in common."""

from meantime.stack.java import Java

LOGGING = """\
status = error
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{ISO8601} %-5p %c{1}: %m%n
rootLogger.level = warn
rootLogger.appenderRef.console.ref = console
"""


LIGHT = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""For programs that are done, or have little to do, before thorough compilation would pay."""


def java_command(
    java: Java, *, heap: str, classpath: str, main: tuple[str, ...], options: tuple[str, ...] = ()
) -> tuple[str, ...]:
    return (
        str(java.executable),
        f"-Xmx{heap}",
        "-XX:+ExitOnOutOfMemoryError",
        "-Djava.awt.headless=true",
        *options,
        *("-cp", classpath),
        *main,
    )
