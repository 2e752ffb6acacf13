"""Nodes find each other, one is killed and comes back, one has a wrong clock and is not trusted until it is right."""

from typing import Any

from meantime.tour.stage import TourStage

SKEW_MS = 5000
SKEW_FOR = 6


def play(stage: TourStage) -> None:
    _nodes_find_each_other(stage)
    _a_killed_node_leaves_and_returns(stage)
    _a_wrong_clock_is_not_trusted(stage)


def _nodes_find_each_other(stage: TourStage) -> None:
    stage.voice.chapter("Three nodes that agree")
    nodes, _ = stage.until("three healthy nodes", lambda: _healthy(stage, 3))
    rows = [
        (id, node["url"], node["state"], f"{node['clock_offset_ms']:+.1f} ms", node["timelines_version"])
        for id, node in sorted(nodes.items())
    ]
    stage.voice.table(["node", "address", "state", "clock", "version"], rows)
    stage.check(len({node["timelines_version"] for node in nodes.values()}) == 1, "all of them acknowledge the same version")


def _a_killed_node_leaves_and_returns(stage: TourStage) -> None:
    stage.voice.chapter("A node is killed")
    before = stage.nodes()["node-3"]
    former = stage.pid_of("node-3")
    stage.kill("node-3")
    stage.voice.say("kill -9 node-3. Nothing says goodbye; its ZooKeeper session has to run out.")
    left, left_after = stage.until("node-3 to leave", lambda: _left_or_back(stage, former))
    stage.voice.fact(f"the others have noticed after {left_after:.1f} s" if left == "left" else "it was back before that")
    _, back_after = stage.until(
        "the supervisor to restart it", lambda: stage.pid_of("node-3") != former and _healthy(stage, 3), within=60
    )
    stage.check(
        stage.nodes()["node-3"]["url"] == before["url"], f"it is back after {back_after:.1f} s more, same name, same address"
    )


def _left_or_back(stage: TourStage, former: int) -> str | None:
    """A node that starts again quickly may take its place in the list before anybody has noticed."""
    if stage.nodes().get("node-3", {}).get("state") != "healthy":
        return "left"
    return "back" if stage.pid_of("node-3") != former and _healthy(stage, 3) else None


def _a_wrong_clock_is_not_trusted(stage: TourStage) -> None:
    stage.voice.chapter("A clock that is wrong")
    stage.voice.say(f"A fourth node joins; its clock is {SKEW_MS / 1000:.0f} s ahead for {SKEW_FOR} s.")
    flags = ["--clock-skew-ms", str(SKEW_MS), "--clock-skew-for", str(SKEW_FOR)]
    with stage.extra_node("node-4", *flags):
        node, after = stage.until("node-4 to distrust itself", lambda: _drifted(stage), within=30)
        stage.voice.fact(f"{node['state']} after {after:.1f} s: {node['reasons'][0]['detail']}")
        others = [node["state"] for id, node in stage.nodes().items() if id != "node-4"]
        stage.check(others == ["healthy"] * 3, "the other three trust each other as before")
        _, after = stage.until(
            "its clock to be right again", lambda: stage.nodes()["node-4"]["state"] == "healthy", within=60
        )
        stage.voice.fact(f"healthy again by itself after {after:.1f} s")
    stage.until("node-4 to leave", lambda: "node-4" not in stage.nodes())
    stage.voice.fact("it was stopped and has left at once")


def _healthy(stage: TourStage, count: int) -> dict[str, dict[str, Any]] | None:
    views = [stage.nodes(url) for url in stage.urls]
    agreed = all(len(view) == count and all(node["state"] == "healthy" for node in view.values()) for view in views)
    return views[0] if agreed else None


def _drifted(stage: TourStage) -> dict[str, Any] | None:
    node = stage.nodes().get("node-4")
    drifted = node and any(reason["code"] == "clock_drift" for reason in node["reasons"])
    return node if drifted else None
