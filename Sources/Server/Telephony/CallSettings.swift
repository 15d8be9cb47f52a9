// The application's parameters of a call as settings of its session. They are the settings that an
// application may choose for each call; the formats of the audio are the line's. A parameter is
// checked as the same field of `session.update` is.
//
// Not here: `agent`, `model`, `greeting` and `dtmf`, which are no fields of a session; parameters with other
// names, which stay facts of the call.

import Codec

/// Makes updates of a session from the parameters of a call.
enum CallSettings {
    /// The form of a parameter's text.
    private enum Form {
        case text
        case json
    }

    /// One parameter, and the field that it sets.
    private struct Setting {
        let parameter: String
        let form: Form
        /// The objects around the field, and its name.
        let path: [StaticString]
    }

    private static let settings: [Setting] = [
        Setting(parameter: "instructions", form: .text, path: ["instructions"]),
        Setting(parameter: "voice", form: .text, path: ["audio", "output", "voice"]),
        Setting(parameter: "speed", form: .json, path: ["audio", "output", "speed"]),
        Setting(
            parameter: "language", form: .text,
            path: ["audio", "input", "transcription", "language"]),
        Setting(
            parameter: "turn_detection", form: .json, path: ["audio", "input", "turn_detection"]),
        Setting(
            parameter: "noise_reduction", form: .json, path: ["audio", "input", "noise_reduction"]),
        Setting(parameter: "tools", form: .json, path: ["tools"]),
        Setting(parameter: "tool_choice", form: .json, path: ["tool_choice"]),
        Setting(parameter: "max_output_tokens", form: .json, path: ["max_output_tokens"]),
        Setting(parameter: "truncation", form: .json, path: ["truncation"]),
        Setting(parameter: "recording", form: .json, path: ["recording"]),
    ]

    /// The events that a client would send for the parameters, in order: first a whole session
    /// (`session`, as JSON), and then one for each parameter.
    /// - Throws: `invalid_value`, for a value that should be JSON and is not.
    static func events(of call: TelephoneCall) throws(ClientEventError) -> [[UInt8]] {
        var events: [[UInt8]] = []
        if let session = call.parameter("session") {
            events.append(try event(session, at: [], .json, named: "session"))
        }
        for setting in settings {
            guard let text = call.parameter(setting.parameter) else { continue }
            events.append(
                try event(text, at: setting.path, setting.form, named: setting.parameter))
        }
        return events
    }

    private static func event(
        _ text: String, at path: [StaticString], _ form: Form, named name: String
    ) throws(ClientEventError) -> [UInt8] {
        if form == .json, !isJSON(text) {
            throw ClientEventError(
                code: "invalid_value", message: "The parameter '\(name)' is not JSON.",
                param: name)
        }
        var json = JSONWriter(ByteWriter(capacity: 256))
        json.beginObject()
        json.member("type", "session.update")
        json.key("session")
        for (index, key) in path.enumerated() {
            json.beginObject()
            if index == 0 { json.member("type", "realtime") }
            json.key(key)
        }
        switch form {
        case .text: json.string(text)
        case .json: json.raw(RawJSON(text))
        }
        for _ in path { json.endObject() }
        json.endObject()
        return json.finish().copiedBytes
    }

    /// Whether a text is one JSON value. The parser takes only objects and arrays.
    private static func isJSON(_ text: String) -> Bool {
        guard let list = try? JSONParser().parse("[\(text)]") else { return false }
        return list.count == 1
    }
}
