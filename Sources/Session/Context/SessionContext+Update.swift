// Checks an update of a session against the models and limits of this server; the parser has
// checked its form. It is used for `session.update`, and for the session of a client secret before
// that session exists.

import Codec

extension SessionContext {
    /// A session as an update makes it. Without a voice activity model its turn detection is off
    /// where the update does not ask for it.
    public func parameters(
        _ before: SessionParameters, changedBy update: SessionUpdate
    ) throws(ClientEventError) -> SessionParameters {
        var updated = before
        updated.apply(update)
        if updated.kind == .transcription, let field = update.realtimeField {
            throw .notOfTranscriptionSession(field: "\(field)")
        }
        if case .value(let tools) = update.mcpTools {
            try checkToolServers(tools, path: "session.tools")
        }
        if updated.turnDetection != nil, voiceActivityModel == nil {
            if case .value = update.turnDetection {
                throw .turnDetectionUnavailable
            }
            updated.turnDetection = nil
        }
        if let turnDetection = updated.turnDetection {
            // The padding before speech must leave room for the speech.
            let most = limits.maxBufferedAudioSeconds * 1_000 / 2
            guard turnDetection.prefixPaddingMilliseconds <= most else {
                throw .prefixPaddingTooLong(mostMilliseconds: most)
            }
        }
        if case .retentionRatio(_, let limit?) = updated.truncation {
            let reply = updated.maxOutputTokens ?? TokenEstimate.replyTokens
            let most = max(0, limits.modelContextTokens - reply)
            guard limit <= most else {
                throw .truncationLimitTooHigh(most: most)
            }
        }
        return updated
    }

    /// Refuses MCP servers that sessions may not name.
    func checkToolServers(_ tools: [MCPTool], path: String) throws(ClientEventError) {
        guard !tools.isEmpty else { return }
        guard let toolServers else { throw .mcpUnsupported(path: path) }
        guard tools.count <= limits.maxToolServers else {
            throw .tooManyMCPServers(most: limits.maxToolServers, path: path)
        }
        for tool in tools {
            if let refusal = toolServers.refusal(of: tool, path: path) { throw refusal }
        }
    }
}
