// One connection to the scripted model: its requests, the answer in progress, and the bytes that
// the socket does not take yet. ScriptedModel keeps the times.

import CLinux
import Codec

/// A client of the model server.
final class ModelStream {
    /// An answer in progress.
    struct Answer {
        let script: ModelScript
        let request: ModelRequest
        /// When the request was complete, in nanoseconds.
        let begin: Int64
        let number: Int
        /// Deltas that have been sent.
        var sent = 0
        /// Whether the client did not read, so that the deltas that are due now are late because of
        /// it.
        var wasStalled = false
    }

    /// The socket; closed when the object is freed.
    let descriptor: Int32
    var answer: Answer?
    /// The part of the model's sound that is still to be sent.
    var speech: Range<Int>?
    private var parser: HTTPRequestParser
    private var received: [UInt8] = []
    private var unsent: [UInt8] = []
    private var mayContinue = true

    init(_ descriptor: Int32) {
        self.descriptor = descriptor
        var limits = HTTPLimits()
        // Enough for a conversation of many turns, or a recording of one.
        limits.maxBodyBytes = 32 << 20
        parser = HTTPRequestParser(limits: limits)
    }

    deinit { close(descriptor) }

    /// Whether bytes wait until the socket is writable.
    var isStalled: Bool { !unsent.isEmpty || speech != nil }

    /// Adds received bytes.
    /// - Returns: the next request, once it is complete.
    /// - Throws: `HTTPError` when the bytes are not HTTP.
    func nextRequest(
        adding bytes: UnsafeRawBufferPointer
    ) throws(HTTPError) -> HTTPRequest? {
        received += bytes
        guard !received.isEmpty else { return nil }
        var failure: HTTPError?
        let parsed = received.withUnsafeBytes { (all) -> (HTTPRequest, Int)? in
            do throws(HTTPError) { return try parser.parse(all) } catch {
                failure = error
                return nil
            }
        }
        if let failure { throw failure }
        if parser.awaitsContinue, mayContinue {
            mayContinue = false
            var writer = ByteWriter(capacity: 64)
            writer.append(HTTPResponse.continueHead)
            writer.withUnsafeBytes { _ = send($0) }
        }
        guard let (request, consumed) = parsed else { return nil }
        mayContinue = true
        if consumed == received.count {
            received = []
        } else {
            received.removeFirst(consumed)
        }
        return request
    }

    /// Sends bytes, and queues those that the socket does not take.
    /// - Returns: false when the connection is lost.
    func send(_ bytes: UnsafeRawBufferPointer) -> Bool {
        guard unsent.isEmpty else {
            unsent += bytes
            return true
        }
        let count = write(bytes)
        guard count >= 0 else { return false }
        if count < bytes.count { unsent += bytes[count...] }
        return true
    }

    /// Sends queued bytes, as many as the socket takes.
    /// - Parameter sound: the sound that `speech` is a range of.
    /// - Returns: false when the connection is lost.
    func flush(_ sound: [UInt8]) -> Bool {
        if !unsent.isEmpty {
            let count = unsent.withUnsafeBytes { write($0) }
            guard count >= 0 else { return false }
            unsent.removeFirst(count)
            if unsent.isEmpty { unsent = [] }
        }
        while unsent.isEmpty, let rest = speech {
            let count = sound.withUnsafeBytes {
                write(UnsafeRawBufferPointer(rebasing: $0[rest]))
            }
            guard count >= 0 else { return false }
            let next = rest.lowerBound + count
            speech = next == rest.upperBound ? nil : next..<rest.upperBound
            if count == 0 { break }
        }
        return true
    }

    /// - Returns: the number of bytes sent, 0 when the socket takes none, -1 when the connection is
    ///   lost.
    private func write(_ bytes: UnsafeRawBufferPointer) -> Int {
        let count = CLinux.send(
            descriptor, bytes.baseAddress, bytes.count, Int32(MSG_NOSIGNAL | MSG_DONTWAIT))
        if count >= 0 { return count }
        return parley_errno() == EAGAIN ? 0 : -1
    }
}
