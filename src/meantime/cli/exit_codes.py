"""How a command ends: one table from error codes to exit codes, and what to do about each.

Exit codes are part of the interface; scripts may rely on them.
"""

from dataclasses import dataclass

from meantime.errors import Forbidden, MeantimeError, Unauthenticated


@dataclass(frozen=True, slots=True)
class Exit:
    code: int
    meaning: str
    errors: tuple[str, ...] = ()
    advice: str = ""


OK = 0
FAILED = 1
USAGE = 2
NOT_RUNNING = 3
PARTLY = 9
INTERRUPTED = 130
READER_GONE = 141

EXITS = (
    Exit(OK, "done"),
    Exit(
        FAILED,
        "unexpected failure",
        ("internal", "unexpected_answer", "corrupt_record", "time_limit"),
    ),
    Exit(USAGE, "the command line is wrong"),
    Exit(NOT_RUNNING, "no running stack, or it cannot do it, or a part is not installed", ("stack", "missing_extra")),
    Exit(
        4,
        "refused: the request is not valid",
        (
            "malformed",
            "invalid",
            "bad_cursor",
            "cursors_unavailable",
            "publish_failed",
            "too_large",
            "headers_too_large",
            "unknown_encoding",
        ),
    ),
    Exit(5, "not found", ("not_found", "unknown_reference")),
    Exit(6, "conflict: it exists already, or it is in use", ("conflict", "version_moved", "lease_lost")),
    Exit(
        7,
        "not allowed",
        ("unauthenticated", "forbidden"),
        "a key that may do it, with --key or MEANTIME_KEY; `meantime keys add` makes one",
    ),
    Exit(
        8,
        "not now: try again",
        (
            "too_many_requests",
            "unavailable",
            "unreachable",
            "degraded",
            "barrier_timeout",
            "coordination_lost",
            "storage_unavailable",
            "body_late",
        ),
        "see what is wrong with `meantime status`; start a stack with `meantime up`",
    ),
    Exit(PARTLY, "partly done: some items were refused, each is named"),
    Exit(INTERRUPTED, "interrupted with Ctrl-C"),
    Exit(READER_GONE, "the reader of the output has gone"),
)

_BY_ERROR = {error: exit for exit in EXITS for error in exit.errors}
_UNEXPECTED = EXITS[1]


def exit_of(error: MeantimeError) -> Exit:
    """By the error's own code, else by that of the nearest class above it that has one."""
    codes = [error.code, *(kind.code for kind in type(error).__mro__ if issubclass(kind, MeantimeError))]
    return next((_BY_ERROR[code] for code in codes if code in _BY_ERROR), _UNEXPECTED)


def advice_for(error: MeantimeError, *, with_key: bool) -> str:
    """What to try after this error; empty if the error says it all. `with_key`: whether the command had a key."""
    if isinstance(error, Forbidden):
        scope = error.extras.get("required_scope")
        return f"a key with that scope: `meantime keys add NAME --scope {scope}` makes one" if scope else ""
    if isinstance(error, Unauthenticated) and with_key:
        return "another key: `meantime keys list` shows which are valid"
    if isinstance(error, Unauthenticated):
        return "give a key with --key or MEANTIME_KEY; `meantime keys add` makes one"
    return exit_of(error).advice


def epilog() -> str:
    codes = " · ".join(f"{exit.code} {exit.meaning}" for exit in EXITS)
    return f"Exit codes: {codes}"
