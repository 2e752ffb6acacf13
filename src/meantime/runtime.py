"""Python's collector of garbage, for processes in which it costs more than it finds."""

import gc


def spare_collector(young: int, middle: int, old: int) -> None:
    """What there is now stays and is not looked through again; what is new is, each time there is so much of it."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(young, middle, old)
