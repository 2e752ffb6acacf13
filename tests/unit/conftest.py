"""Unit tests are for every minute: properties are tried briefly. `HYPOTHESIS_PROFILE=long` tries them harder."""

import os

from hypothesis import settings

settings.register_profile("brief", max_examples=25, deadline=None)
settings.register_profile("long", max_examples=1000, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "brief"))
