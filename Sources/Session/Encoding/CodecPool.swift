// Idle decoders and encoders of a shard. A session has one only while audio comes in or goes out;
// after that, another session takes it.
//
// Invariant: no session's audio reaches another: a codec is reset before it is taken.

import Codec

/// The idle codecs of one shard, bounded by `capacity` of each kind.
struct CodecPool {
    /// How many there are, for the metrics.
    struct Counts: Equatable {
        var decodersInUse = 0
        var encodersInUse = 0
        var decodersPooled = 0
        var encodersPooled = 0
    }

    private var decoders: [AudioFormat: [InputAudioDecoder]] = [:]
    private var encoders: [AudioFormat: [OutputAudioEncoder]] = [:]
    private let capacity: Int
    private(set) var counts = Counts()
    /// Bytes of those that wait.
    private(set) var pooledBytes = 0

    init(capacity: Int) { self.capacity = capacity }

    /// A decoder at the start of a stream.
    /// - Throws: when a new one is needed and cannot be had.
    mutating func takeDecoder(
        for format: AudioFormat
    ) throws(InputAudioDecoder.Failure) -> InputAudioDecoder {
        let decoder: InputAudioDecoder
        if let pooled = decoders[format]?.popLast() {
            counts.decodersPooled -= 1
            pooledBytes -= pooled.heldBytes
            pooled.reset()
            decoder = pooled
        } else {
            decoder = try InputAudioDecoder(format: format)
        }
        counts.decodersInUse += 1
        return decoder
    }

    /// An encoder at the start of a stream.
    mutating func takeEncoder(
        for format: AudioFormat, settings: ResolvedOpusSettings
    ) -> OutputAudioEncoder {
        counts.encodersInUse += 1
        guard let pooled = encoders[format]?.popLast() else {
            return OutputAudioEncoder(format: format, settings: settings)
        }
        counts.encodersPooled -= 1
        pooledBytes -= pooled.heldBytes
        pooled.reset(settings: settings)
        return pooled
    }

    /// A decoder is not needed any more.
    mutating func give(_ decoder: InputAudioDecoder) {
        counts.decodersInUse -= 1
        guard counts.decodersPooled < capacity else { return }
        counts.decodersPooled += 1
        pooledBytes += decoder.heldBytes
        decoders[decoder.format, default: []].append(decoder)
    }

    /// An encoder is not needed any more.
    mutating func give(_ encoder: OutputAudioEncoder) {
        counts.encodersInUse -= 1
        guard counts.encodersPooled < capacity else { return }
        counts.encodersPooled += 1
        pooledBytes += encoder.heldBytes
        encoders[encoder.format, default: []].append(encoder)
    }
}
