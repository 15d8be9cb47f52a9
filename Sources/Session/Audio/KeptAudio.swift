// The user's audio that a conversation keeps beside its items: for a model that hears, and for a
// client that retrieves an item. The oldest audio is dropped first; the item keeps its words.
//
// Invariant: audio that is kept for clients only takes at most `maxBytes`.

import Codec

/// Audio of items, in the order in which it came.
struct KeptAudio {
    private struct Piece {
        let itemID: String
        let audio: HeardAudio
        /// Whether a model that hears may still be given it.
        var isForModel: Bool
    }

    private var pieces: [Piece] = []
    /// Bytes of coded audio that is kept for clients only. Four bytes, as of all small numbers that an
    /// idle session has.
    private let maxBytes: UInt32

    init(maxBytes: Int) { self.maxBytes = UInt32(clamping: maxBytes) }

    /// Bytes on the heap.
    var heldBytes: Int {
        pieces.reduce(pieces.heapBytes) { $0 + $1.itemID.heapBytes + $1.audio.heldBytes }
    }

    /// Whether the audio of an item is kept.
    func holdsAudio(of id: String) -> Bool { pieces.contains { $0.itemID == id } }

    /// The audio of an item.
    func audio(of id: String) -> HeardAudio? { pieces.last { $0.itemID == id }?.audio }

    /// The audio of an item for a model that hears.
    func heard(of id: String) -> HeardAudio? {
        pieces.last { $0.itemID == id && $0.isForModel }?.audio
    }

    /// Keeps the audio of an item.
    mutating func keep(_ audio: HeardAudio, of id: String, isForModel: Bool) {
        pieces.append(Piece(itemID: id, audio: audio, isForModel: isForModel))
        release()
    }

    /// Limits the audio that a model is given of turns before the newest: at most this many samples
    /// in all, and none of an item that has a transcript by now.
    mutating func forgetHeard(beyond maxSamples: Int, unless isWithoutWords: (String) -> Bool) {
        var left = maxSamples
        for index in pieces.indices.reversed() where pieces[index].isForModel {
            left -= pieces[index].audio.sampleCount
            guard index != pieces.indices.last else { continue }
            if left < 0 || !isWithoutWords(pieces[index].itemID) {
                pieces[index].isForModel = false
            }
        }
        release()
    }

    /// The audio of an item is not given to a model.
    mutating func forgetHeard(of id: String) {
        for index in pieces.indices where pieces[index].itemID == id {
            pieces[index].isForModel = false
        }
        release()
    }

    /// An item is gone.
    mutating func remove(_ id: String) { pieces.removeAll { $0.itemID == id } }

    private mutating func release() {
        var bytes = pieces.reduce(0) { $0 + ($1.isForModel ? 0 : $1.audio.heldBytes) }
        guard bytes > maxBytes else { return }
        pieces.removeAll { piece in
            guard bytes > maxBytes, !piece.isForModel else { return false }
            bytes -= piece.audio.heldBytes
            return true
        }
    }
}

extension HeardAudio {
    /// How many bytes `encoded(as:)` makes, at most.
    func encodedBytes(as format: AudioFormat) -> Int {
        let format = format.ofWholeStretches
        return format.bytesPerSample
            * (sampleCount * format.sampleRate.hertz / SampleRate.hz16000.hertz + 1)
    }

    /// The stretch in a client's format, or as PCM where that is Opus, because an item's audio is
    /// one value and Opus has no form for several packets in one. A second of Opus takes a
    /// millisecond: not to be called on a shard.
    /// - Throws: where there is no memory for a decoder or a filter.
    public func encoded(as format: AudioFormat) throws -> [UInt8] {
        let samples = try samples()
        let format = format.ofWholeStretches
        var resampler = try Resampler(from: .hz16000, to: format.sampleRate)
        let room = UnsafeMutableBufferPointer<Int16>.allocate(
            capacity: resampler.maxOutputSamples(for: samples.count))
        defer { room.deallocate() }
        let count = samples.withUnsafeBufferPointer { resampler.process($0, into: room) }
        let converted = UnsafeBufferPointer(rebasing: room[..<count])
        var bytes: [UInt8] = []
        bytes.reserveCapacity(encodedBytes(as: format))
        switch format {
        case .pcmu: G711.encode(converted, law: .mu, into: &bytes)
        case .pcma: G711.encode(converted, law: .a, into: &bytes)
        case .pcm, .pcm8000, .pcm16000, .pcm48000, .opus:
            var writer = ByteWriter(capacity: count * PCM.bytesPerSample)
            PCM.encode(converted, into: &writer)
            bytes = writer.copiedBytes
        }
        return bytes
    }
}

extension AudioFormat {
    /// The format in which a stretch of this one is given out.
    fileprivate var ofWholeStretches: AudioFormat { self == .opus ? .pcm : self }
}
