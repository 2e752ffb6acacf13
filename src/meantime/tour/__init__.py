"""The tour (`meantime demo`): the system comes up, is shown, is broken on purpose, mends itself, and is gone again."""
