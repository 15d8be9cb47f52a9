// The header fields by which an agent learns which turn of which session a request asks for, and what
// the user heard of its last reply. Every request to a model has them; services that do not know them
// ignore them. docs/agents.md has their table.
//
// Sources: `traceparent` is W3C Trace Context (2021-11-23) §3.2; `Idempotency-Key` is
// draft-ietf-httpapi-idempotency-key-header; X-Parley-Heard is an item with a parameter (RFC 8941
// §3.3).

import Codec
import Session

/// Writes the fields of one turn.
enum TurnFields {
    /// The fields of one attempt at a request. Each has a signature of its own, which is valid for a
    /// minute.
    /// - Parameter variant: what distinguishes the request from the first one for the turn: it has
    ///   the whole conversation, or another form. Empty: nothing, it is a retry.
    static func fields(
        of request: ModelRequest, for service: ModelService, variant: String = ""
    ) -> [UpstreamService.Header] {
        guard let turn = request.turn else { return [] }
        var fields: [UpstreamService.Header] = [
            ("X-Parley-Session", turn.sessionID),
            ("X-Parley-Turn", turn.responseID),
            ("traceparent", traceParent(of: turn)),
            // A retry asks for the same turn again.
            ("Idempotency-Key", turn.responseID + variant),
        ]
        if let call = turn.call {
            fields.append(("X-Parley-Call-Carrier", call.carrier.rawValue))
            for (name, value) in [
                ("X-Parley-Call", call.callID), ("X-Parley-Call-From", call.from ?? ""),
                ("X-Parley-Call-To", call.to ?? ""),
            ] where !value.isEmpty && isPrintable(value) {
                fields.append((name, value))
            }
        }
        if let limit = service.totalTimeout {
            fields.append(("X-Parley-Deadline-Ms", "\(max(0, limit.wholeMilliseconds))"))
        }
        if let heard = request.heard, isPrintable(heard.itemID) {
            fields.append(
                ("X-Parley-Heard", "\"\(heard.itemID)\";characters=\(heard.characters)"))
        }
        if let token = service.signer?.token(
            for: turn, audience: service.audience ?? service.baseURL)
        {
            fields.append(("X-Parley-Signature", token))
        }
        return fields
    }

    /// The trace of the session, with the turn as its span. Both follow from the ids, so that a
    /// trace is found by the id in a log and nothing has to be kept.
    static func traceParent(of turn: TurnIdentity) -> String {
        let trace = SHA256Digest(of: turn.sessionID).hexadecimal(ofBytes: 16)
        let span = SHA256Digest(of: turn.responseID).hexadecimal(ofBytes: 8)
        return "00-\(trace)-\(span)-01"
    }

    /// Whether a text can stand in quotes in a field: a client may have chosen the item's id.
    private static func isPrintable(_ text: String) -> Bool {
        text.utf8.allSatisfy { $0 >= 0x20 && $0 < 0x7F && $0 != 0x22 && $0 != 0x5C }
    }
}
