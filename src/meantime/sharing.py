"""Who should have which queue: a pure function of the workers, the queues and what each worker holds now.

Sizes differ by at most one, no queue moves that could have stayed, and everybody who knows the same gets the same answer.
"""

from collections.abc import Collection, Mapping, Sequence

Holdings = Mapping[str, Collection[str]]
"""Queues by worker."""


def plan(workers: Collection[str], queues: Collection[str], held: Holdings) -> dict[str, list[str]]:
    """The queues of each worker, sorted; empty when there are no workers."""
    if not workers:
        return {}
    kept = _present(sorted(workers), set(queues), held)
    spare = sorted(set(queues).difference(*kept.values()))
    shares = _shares(kept, len(set(queues)))
    for worker, share in shares.items():
        spare += kept[worker][share:]
        del kept[worker][share:]
    for worker, share in shares.items():
        missing = share - len(kept[worker])
        kept[worker] += spare[:missing]
        del spare[:missing]
    return {worker: sorted(kept[worker]) for worker in sorted(kept)}


def moves(held: Holdings, planned: Holdings) -> int:
    """How many queues change hands between two states; what had no worker before does not count."""
    before = {queue: worker for worker, queues in held.items() for queue in queues}
    after = {queue: worker for worker, queues in planned.items() for queue in queues}
    return sum(1 for queue, worker in before.items() if queue in after and after[queue] != worker)


def _present(workers: Sequence[str], queues: set[str], held: Holdings) -> dict[str, list[str]]:
    """What each worker holds of these queues; a queue that two claim counts for the first."""
    left = set(queues)
    present = {}
    for worker in workers:
        mine = left.intersection(held.get(worker, ()))
        left -= mine
        present[worker] = sorted(mine)
    return present


def _shares(kept: Mapping[str, Sequence[str]], queues: int) -> dict[str, int]:
    """How many each may have. Those who hold most get the one more, since taking it from them would be a move."""
    least, rest = divmod(queues, len(kept))
    by_size = sorted(kept, key=lambda worker: (-len(kept[worker]), worker))
    return {worker: least + (place < rest) for place, worker in enumerate(by_size)}
