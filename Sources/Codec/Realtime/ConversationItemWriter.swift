// Writes a conversation item. In items and their content a field that does not apply is absent,
// never `null`: browser clients drop an event with a null there. Audio is written if the item has
// it; Session includes it only in an answer to a client that requested it. The URL of an image is
// written unless it contains the image's data: the client has sent the data and needs no copy.

extension JSONWriter {
    /// Writes the protocol's `realtime.item`.
    mutating func item(_ item: ConversationItem) {
        if case .mcp(let mcp) = item.kind { return mcpItem(mcp, id: item.id) }
        beginObject()
        if !item.id.isEmpty { member("id", item.id) }
        member("object", "realtime.item")
        switch item.kind {
        case .message(let role, let content):
            member("type", "message")
            member("status", item.status.rawValue)
            member("role", role.rawValue)
            key("content")
            beginArray()
            for part in content { contentPart(part) }
            endArray()
        case .functionCall(let callID, let name, let arguments):
            member("type", "function_call")
            member("status", item.status.rawValue)
            member("name", name)
            if !callID.isEmpty { member("call_id", callID) }
            member("arguments", arguments)
        case .functionCallOutput(let callID, let output):
            member("type", "function_call_output")
            member("status", item.status.rawValue)
            member("call_id", callID)
            member("output", output)
        case .reference:
            member("type", "item_reference")
        case .mcp: break
        }
        endObject()
    }

    private mutating func contentPart(_ part: ContentPart) {
        beginObject()
        switch part {
        case .inputText(let text):
            member("type", "input_text")
            member("text", text)
        case .inputAudio(let bytes, let transcript):
            member("type", "input_audio")
            if !bytes.isEmpty {
                key("audio")
                base64(bytes.span.bytes)
            }
            if let transcript { member("transcript", transcript) }
        case .inputImage(let url, let detail):
            member("type", "input_image")
            if !url.hasPrefix("data:") { member("image_url", url) }
            member("detail", detail.rawValue)
        case .outputText(let text):
            member("type", "output_text")
            member("text", text)
        case .outputAudio(let transcript):
            member("type", "output_audio")
            member("transcript", transcript)
        }
        endObject()
    }
}
