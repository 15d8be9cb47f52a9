// The work space of a shard's codecs.

import Codec

/// Room for one run of samples before and after resampling, or without its noise, and for one coded packet;
/// shared by a shard's sessions so that decoding allocates nothing, and encoding only what is sent.
public final class AudioScratch {
    let decoded: UnsafeMutableBufferPointer<Int16>
    let resampled: UnsafeMutableBufferPointer<Int16>
    let reduced: UnsafeMutableBufferPointer<Int16>
    let packet: UnsafeMutableRawBufferPointer

    init() {
        decoded = .allocate(capacity: InputAudioDecoder.scratchSamples)
        // Upsampling from 8 to 48 kHz is the largest growth, plus the resampler's own rounding.
        resampled = .allocate(capacity: InputAudioDecoder.scratchSamples * 6 + 64)
        packet = .allocate(byteCount: OpusEncoder.maxPacketBytes, alignment: 16)
        reduced = .allocate(
            capacity: InputAudioDecoder.scratchSamples + NoiseReducer.frameSamples)
        decoded.initialize(repeating: 0)
        resampled.initialize(repeating: 0)
        reduced.initialize(repeating: 0)
    }

    deinit {
        decoded.deallocate()
        resampled.deallocate()
        reduced.deallocate()
        packet.deallocate()
    }
}
