"""How many messages were created, existed already, were refused."""

import msgspec


class Tally(msgspec.Struct, frozen=True):
    created: int = 0
    exists: int = 0
    rejected: int = 0

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(self.created + other.created, self.exists + other.exists, self.rejected + other.rejected)
