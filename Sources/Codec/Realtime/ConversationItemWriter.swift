// Writes a conversation item. In items and their content a field that does not apply is absent,
// never `null`: browser clients drop an event with a null there. Audio is written if the item has
// it; Session includes it only in an answer to a client that requested it. The URL of an image is
// written unless it contains the image's data: the client has sent the data and needs no copy. A
// saved item has it.

extension JSONWriter {
    /// Writes the protocol's `realtime.item`.
    /// - Parameter keepsImages: whether the data of images is written.
    package mutating func item(
        _ item: ConversationItem, in dialect: RealtimeDialect, keepsImages: Bool = false
    ) {
        if case .mcp(let mcp) = item.kind { return mcpItem(mcp, id: item.id) }
        object { json in
            if !item.id.isEmpty { json.member("id", item.id) }
            json.member("object", "realtime.item")
            switch item.kind {
            case .message(let role, let content):
                json.member("type", "message")
                json.member("status", item.status.rawValue)
                json.member("role", role.rawValue)
                json.array("content") { json in
                    for part in content {
                        json.contentPart(part, in: dialect, keepsImages: keepsImages)
                    }
                }
            case .functionCall(let callID, let name, let arguments):
                json.member("type", "function_call")
                json.member("status", item.status.rawValue)
                json.member("name", name)
                if !callID.isEmpty { json.member("call_id", callID) }
                json.member("arguments", arguments)
            case .functionCallOutput(let callID, let output):
                json.member("type", "function_call_output")
                json.member("status", item.status.rawValue)
                json.member("call_id", callID)
                json.member("output", output)
            case .reference:
                json.member("type", "item_reference")
            case .mcp: break
            }
        }
    }

    private mutating func contentPart(
        _ part: ContentPart, in dialect: RealtimeDialect, keepsImages: Bool
    ) {
        object { json in
            switch part {
            case .inputText(let text):
                json.member("type", "input_text")
                json.member("text", text)
            case .inputAudio(let bytes, let transcript):
                json.member("type", "input_audio")
                if !bytes.isEmpty {
                    json.key("audio")
                    json.base64(bytes.span.bytes)
                }
                if let transcript { json.member("transcript", transcript) }
            case .inputImage(let url, let detail):
                json.member("type", "input_image")
                if keepsImages || !url.hasPrefix("data:") { json.member("image_url", url) }
                json.member("detail", detail.rawValue)
            case .outputText(let text):
                json.member("type", dialect.outputText)
                json.member("text", text)
            case .outputAudio(let transcript):
                json.member("type", dialect.outputAudio)
                json.member("transcript", transcript)
            }
        }
    }
}
