"""The group of a replicated queue for an operator, from what its members' nodes report (replicated/administration.py). Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from front.node_ports import GroupView, MemberView, ReaderView
from raft.core.majority import majority_of
from raft.core.messages import MemberId, NodeId, node_of, shown

HEIR_LAG_ENTRIES = 64  # what a member may lack to be handed a leadership
LEADER = "leader"
Figures = Mapping[str, Any]


def led_by(figures: Figures) -> NodeId:
    """The node that leads, as this one says; 0: it knows of none."""
    return int(figures["leader_node"])


def heirs_of(leader: Figures) -> tuple[NodeId, ...]:
    """Nodes of the voters that can take over at once."""
    raft = leader["raft"]
    voters = set(raft["membership"][0])
    return tuple(
        node_of(one["member"])
        for one in raft["followers"]
        if one["member"] in voters and not one["suspected"] and one["match"] + HEIR_LAG_ENTRIES >= raft["last"]
    )


def load_of(leader: Figures, before: Figures | None, by: str) -> int:
    """What leading costs its node; see BALANCED_BY. `before`: what the leader said a second earlier."""
    match by:
        case "bytes":
            machine = leader.get("machine", {})
            return int(
                machine.get("bytes", 0) or machine.get("ready_bytes", 0) + machine.get("unacknowledged_bytes", 0)
            )
        case "entries":
            return max(0, leader["raft"]["last"] - before["raft"]["last"]) if before is not None else 0
        case _:
            return 1


def group_view(
    recorded: Iterable[MemberId],
    told: Mapping[NodeId, Figures | None],
    name_of: Callable[[NodeId], str],
    reaches: Callable[[NodeId], bool],
    away_since_ms: Callable[[NodeId], int],
) -> GroupView:
    """`recorded`: the members that the catalog names. `told`: by each node, None by those that did not answer."""
    rafts = [figures["raft"] for figures in told.values() if figures is not None and "raft" in figures]
    leads = max((raft for raft in rafts if raft["role"] == LEADER), key=lambda raft: raft["term"], default=None)
    best = leads or max(rafts, key=lambda raft: (raft["commit"], raft["term"]), default=None)
    voters, learners, promotable = best["membership"] if best is not None else (list(recorded), [], [])
    followers = {one["member"]: one for one in leads["followers"]} if leads is not None else {}

    def member(number: MemberId) -> MemberView:
        node = node_of(number)
        figures = told.get(node)
        raft = figures.get("raft", {}) if figures is not None else {}
        known = raft if raft.get("member") == number else {}
        machine = figures["machine"] if figures is not None and known else {}
        follower = followers.get(number)
        return MemberView(
            node=name_of(node),
            member=shown(number),
            state=_state(known, figures, reached=reaches(node)),
            membership="voter" if number in voters else "promotable" if number in promotable else "learner",
            away_since_ms=0 if reaches(node) else away_since_ms(node),
            term=known.get("term", 0),
            first=known.get("first", 0),
            last=known.get("last", 0),
            commit=known.get("commit", 0),
            applied=known.get("applied", 0),
            snapshot=known.get("snapshot", 0),
            lag=leads["last"] - follower["match"] if leads is not None and follower is not None else 0,
            machine_version=machine.get("version", 0),
            digest=f"{machine['digest']:016x}" if "digest" in machine else "",
            snapshot_sent_bytes=(follower["snapshot_sent_bytes"] or 0) if follower is not None else 0,
            first_offset=machine.get("first_offset", 0),
            committed_offset=machine.get("committed_offset", 0),
            segments=machine.get("segments", 0),
            bytes=machine.get("bytes", 0),
            readers=[_reader(one) for one in figures.get("reading", ())] if figures is not None else (),
        )

    return GroupView(
        leader=name_of(node_of(leads["member"])) if leads is not None else "",
        term=best["term"] if best is not None else 0,
        commit=best["commit"] if best is not None else 0,
        open_entries=best["last"] - best["commit"] if best is not None else 0,
        open_bytes=best["uncommitted_bytes"] if best is not None else 0,
        change_pending=best["change_pending"] if best is not None else False,
        needed=majority_of(len(voters)),
        members=[member(number) for number in sorted({*voters, *learners})],
    )


def _reader(told: Figures) -> ReaderView:
    return ReaderView(
        told["consumer_tag"], told["offset"], told["offset_lag"], told["bytes_sent"], told.get("lag_s", 0)
    )


def _state(known: Figures, figures: Figures | None, *, reached: bool) -> str:
    if known:
        return str(known["role"])
    if not reached:
        return "down"
    if figures is None:
        return "silent"
    return "replaced" if "raft" in figures else "starting"
