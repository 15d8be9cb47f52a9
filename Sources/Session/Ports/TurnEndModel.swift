// The port to a model that hears whether a turn is over.

/// Judges by the sound of a turn whether it is over.
public protocol TurnEndModel: ModelMemory {
    /// The probability that a turn is over, 0…1.
    /// - Parameter audio: the turn so far at 16 kHz, the silence after its speech included.
    /// - Throws: an `AgentError`. The turn is then judged without the model.
    func probability(ofEndAfter audio: HeardAudio, on host: any AgentHost) async throws -> Float

    /// A client has begun to send audio: load the model. An error is not reported here, but by
    /// `probability`, which meets it again.
    func prepare(on host: any AgentHost) async
}
