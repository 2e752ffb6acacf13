"""What has changed between two states, and that whoever applies it has the later one."""

from hypothesis import given
from hypothesis import strategies as st

from meantime.console.merge_patch import difference, patched

LEAVES = st.integers() | st.booleans() | st.text(max_size=3) | st.lists(st.integers(), max_size=2)
STATES = st.dictionaries(
    st.sampled_from("abcd"), st.recursive(LEAVES, lambda inner: st.dictionaries(st.sampled_from("abcd"), inner)), max_size=4
)


@given(STATES, STATES)
def test_a_state_and_what_has_changed_make_the_next_state(before, after) -> None:
    assert patched(before, difference(before, after)) == after


@given(STATES)
def test_nothing_has_changed_between_a_state_and_itself(state) -> None:
    assert difference(state, state) == {}


def test_only_what_has_changed_is_told() -> None:
    before = {"nodes": {"a": {"state": "healthy", "offset_ms": 1}, "b": {"state": "healthy"}}, "now_ms": 1}
    after = {"nodes": {"a": {"state": "healthy", "offset_ms": 2}, "c": {"state": "degraded"}}, "now_ms": 2}
    change = {"nodes": {"a": {"offset_ms": 2}, "b": None, "c": {"state": "degraded"}}, "now_ms": 2}
    assert difference(before, after) == change
