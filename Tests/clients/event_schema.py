"""Checks events against the protocol's tables: is this text a server event that every client
library accepts?

It reads Tests/Fixtures/realtime-events.json, like Tests/Simulation/RealtimeSchema.swift, and is
equally strict: an unknown field is a violation, and so is a `null` inside an item or a part. It
does not check the order of events."""

import dataclasses
import functools
import json
import pathlib
import re

FIXTURES = pathlib.Path(__file__).resolve().parents[1] / "Fixtures"

# Allowed fields that the table does not have; the same as in RealtimeSchema.swift.
TURN_DETECTION_EXTENSIONS = {
    "interruption", "min_interruption_ms", "patience", "speculative_response",
}
# Reasons of an ending that only a session has that can be resumed.
OWN_REASONS = {"handed_over", "interrupted_by_restart"}
FIELDS_BESIDE_THE_TABLE = {
    # The protocol's own server sends these; the table describes the request's class.
    "RealtimeSessionCreateRequest": {"id", "object", "expires_at"},
    "RealtimeTranscriptionSessionCreateRequest": {"id", "object", "expires_at"},
    # Extensions of Parley, sent only to a client that has requested them.
    "RealtimeAudioConfigOutput": {"transport"},
    "ServerVad": TURN_DETECTION_EXTENSIONS, "SemanticVad": TURN_DETECTION_EXTENSIONS,
    "response.output_audio.delta": {"audio_start_ms"},
    "conversation.item.truncated": {"transcript"},
}
# Events that only Parley has begin so.
OWN_EVENTS = "parley."
# Fields of events that only Parley has, for a client that can resume its session.
OWN_EVENT_FIELDS = {"offset", "resume"}
# Rates of `audio/pcm` that are not in the table.
OWN_RATES = {8_000, 16_000, 48_000}
# The fields of `audio/opus`, a format that is not in the table.
OPUS_FIELDS = {"type", "sequence", "bitrate", "complexity", "dtx"}


@dataclasses.dataclass(frozen=True)
class Type:
    """A type in the table's notation, for example `union(integer | enum(inf))`.

    `kind` is `enum`, `array`, `map`, `union` or a name; `parts` are the inner types, or the names
    of an enum."""

    kind: str
    parts: tuple = ()


@dataclasses.dataclass(frozen=True)
class Field:
    """A field of an object."""

    type: Type
    is_required: bool
    is_nullable: bool


class Members(list):
    """The members of a JSON object as (key, value) pairs, because a key may occur twice."""

    def get(self, key):
        return next((value for name, value in self if name == key), None)


def parse(text):
    """Parses JSON with objects as `Members`; a number is an int only if it is written as one."""
    return json.loads(text, object_pairs_hook=Members)


def parse_type(text):
    """Parses a type."""
    tokens = re.findall(r"enum\([^)]*\)|array<|map<string,|union\(|[\w.]+|[|>)]", text)
    tokens.reverse()

    def single():
        token = tokens.pop()
        if token.startswith("enum("):
            return Type("enum", tuple(token[5:-1].split("|")))
        if token in ("array<", "map<string,", "union("):
            inner = alternatives()
            tokens.pop()
            return inner if token == "union(" else Type(token.rstrip("<").split("<")[0], (inner,))
        return Type(token)

    def alternatives():
        types = [single()]
        while tokens and tokens[-1] == "|":
            tokens.pop()
            types.append(single())
        return types[0] if len(types) == 1 else Type("union", tuple(types))

    found = alternatives()
    if tokens:
        raise ValueError(f"cannot read the type {text}")
    return found


SCALARS = {
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "null": lambda value: value is None,
}


class EventSchema:
    """Checks events against the protocol's tables, or against those of the beta."""

    def __init__(self, is_beta=False):
        fixture = FIXTURES / ("realtime-beta-events.json" if is_beta else "realtime-events.json")
        root = json.loads(fixture.read_text(encoding="utf-8"))
        self.server_events = self.tables(root["server_events"])
        self.objects = self.tables(root["objects"])
        # In the beta all items are of one class.
        self.items = root.get("conversation_item_types", {})
        self.beside = root.get("beside_the_table", FIELDS_BESIDE_THE_TABLE)
        if (len(self.server_events), len(self.items)) != ((35, 0) if is_beta else (46, 9)):
            raise ValueError(f"{fixture} is not complete")

    @staticmethod
    def tables(section):
        return {
            name: {
                row["name"]: Field(parse_type(row["type"]), row["required"], row["nullable"])
                for row in description["fields"]
            }
            for name, description in section.items() if "fields" in description
        }

    def violations(self, text):
        """The violations in a server event, one sentence each."""
        try:
            event = parse(text)
        except ValueError as error:
            return [f"not JSON: {error}"]
        if not isinstance(event, Members) or event.get("type") is None:
            return ["the event has no type"]
        name = event.get("type")
        if name.startswith(OWN_EVENTS):
            return []
        if name not in self.server_events:
            return [f"{name!r} is not an event"]
        return self.check_members(event, self.server_events[name], name, name)

    def check(self, value, expected, path):
        kind = expected.kind
        if kind == "any":
            return []
        if kind in SCALARS:
            fits = SCALARS[kind](value)
            return [] if fits else [f"{path}: {kind} expected, found {brief(value)}"]
        if kind == "enum":
            if path.endswith(".status_details.reason") and value in OWN_REASONS:
                return []
            fits = (value if isinstance(value, str) else json.dumps(value)) in expected.parts
            return [] if fits else [f"{path}: one of {expected.parts} expected, not {brief(value)}"]
        if kind == "array":
            if not isinstance(value, list) or isinstance(value, Members):
                return [f"{path}: an array expected, found {brief(value)}"]
            return [
                each for index, element in enumerate(value)
                for each in self.check(element, expected.parts[0], f"{path}[{index}]")
            ]
        if kind == "map":
            if not isinstance(value, Members):
                return [f"{path}: an object expected, found {brief(value)}"]
            return [
                each for key, member in value
                for each in self.check(member, expected.parts[0], f"{path}.{key}")
            ]
        if kind == "union":
            return self.check_union(value, expected.parts, path)
        if kind == "ConversationItem" and self.items:
            return self.check_item(value, path)
        if kind not in self.objects:
            return [f"{path}: no object {kind} in the table"]
        return self.check_members(value, self.objects[kind], kind, path)

    def check_union(self, value, alternatives, path):
        if is_own_format(value) and Type("AudioPCMU") in alternatives:
            return []
        results = [(each, self.check(value, each, path)) for each in alternatives]
        if not all(violations for _, violations in results):
            return []
        # The alternative with the same `type` gives the best message.
        for each, violations in results:
            field = self.objects.get(each.kind, {}).get("type")
            own = value.get("type") if isinstance(value, Members) else None
            if field and own is not None and not self.check(own, field.type, ""):
                return violations
        return [f"{path}: none of the alternatives fits {brief(value)}"]

    def check_item(self, item, path):
        kind = item.get("type") if isinstance(item, Members) else None
        role = item.get("role") if isinstance(item, Members) else None
        name = self.items.get(kind) or self.items.get(f"{kind}/{role}")
        if name is None:
            return [f"{path}: no item of type {kind!r} and role {role!r}"]
        return self.check_members(item, self.objects[name], name, path)

    def check_members(self, value, fields, name, path):
        if not isinstance(value, Members):
            return [f"{path}: an object expected, found {brief(value)}"]
        found, seen = [], set()
        forbids_null = name.startswith("RealtimeConversationItem") or name.endswith("Part")
        for key, member in value:
            place = f"{path}.{key}"
            if key in seen:
                found.append(f"{place}: is there twice")
            seen.add(key)
            field = fields.get(key)
            if field is None:
                is_own = path == name and key in OWN_EVENT_FIELDS
                if not is_own and key not in self.beside.get(name, ()):
                    found.append(f"{place}: not a field of {name}")
            elif member is None and not field.is_nullable:
                if field.is_required or forbids_null:
                    found.append(f"{place}: is null")
            elif member is not None:
                found += self.check(member, field.type, place)
        return found + [
            f"{path}.{key}: is missing" for key, field in sorted(fields.items())
            if field.is_required and key not in seen
        ]


def is_own_format(value):
    """Whether a format is one that only Parley has."""
    if not isinstance(value, Members):
        return False
    keys = {key for key, _ in value}
    if value.get("type") == "audio/opus":
        return OPUS_FIELDS.issuperset(keys)
    return keys == {"type", "rate"} and value.get("type") == "audio/pcm" and (
        value.get("rate") in OWN_RATES)


def brief(value):
    """The start of a value, for a message."""
    return repr(value)[:60]


@functools.cache
def schema(is_beta=False):
    """The checker for the fixture of this repository."""
    return EventSchema(is_beta)


def check_event(text, is_beta=False):
    """Fails the caller if a server event does not fit the tables."""
    violations = schema(is_beta).violations(text)
    assert not violations, f"{violations} in {text[:400]}"


def server_event(text):
    """Parses a server event that must fit the tables."""
    check_event(text)
    return json.loads(text)
