"""What clients were shown, beside what the records and the receiver of webhooks have."""

import collections


def lost(shown, kept, fault):
    """How many of `shown` (key → moment) are not in `kept`, and how long before the fault the oldest of
    them was shown, in ms."""
    ages = [(fault - moment) * 1000 for key, moment in shown.items() if key not in kept]
    return len(ages), max(ages, default=0)


def tally(seen, records, events, ids, fault):
    """The row of a case.

    `seen` has the conversations by id, `records` the documents, `events` the bodies that the receiver has
    taken, and `ids` the `webhook-id` of each. `fault` is the moment of the outage."""
    items, turns = collections.Counter(), collections.Counter()
    sessions = {}
    for record in records:
        sessions[record["id"]] = record
        items.update(entry["item"]["id"] for entry in record["items"])
        turns.update(turn["response_id"] for turn in record["turns"])
    shown_items = {key: at for each in seen.values() for key, at in each.items.items()}
    shown_turns = {key: at for each in seen.values() for key, at in each.turns.items()}
    items_lost, item_age = lost(shown_items, items, fault)
    turns_lost, turn_age = lost(shown_turns, turns, fault)
    sessions_lost, session_age = lost({key: each.started for key, each in seen.items()}, sessions, fault)

    told = {kind: set() for kind in ("session.started", "turn.completed", "session.ended")}
    for event in events:
        data = event["data"]
        told[event["type"]].add(
            data["turn"]["response_id"] if event["type"] == "turn.completed" else data["session_id"])
    # A webhook is owed for what the records have, and for what clients were shown.
    owed = (
        ("session.started", sessions), ("session.ended", sessions), ("turn.completed", turns))
    webhooks_lost = sum(len(set(known) - told[kind]) for kind, known in owed)
    return {
        "conversations": len(seen),
        "turns": len(shown_turns),
        "records lost": sessions_lost,
        "left open": sum(record["ended_at"] is None for record in records),
        "items / turns lost": f"{items_lost} / {turns_lost}",
        "shown at most ms before": round(max(item_age, turn_age, session_age)),
        "twice in a record": sum(items.values()) - len(items) + sum(turns.values()) - len(turns),
        "webhooks": len(ids),
        "webhooks lost": webhooks_lost,
        "webhooks twice": len(ids) - len(set(ids)),
    }
