// A voice of flite as an object that one thread at a time may use. FliteSynthesizer prepares the
// text and streams the sound to a session; FliteVoiceTable has the names that clients use.
//
// flite registers a voice once per process and counts references to its features without atomics,
// so two threads may not use one voice at the same time. Its data (phones, trees, the statistical
// model) is only read. A `FliteVoice` therefore shares the data and owns a copy of the features,
// and copies of one voice speak concurrently. A test checks that copies make the same sound, except
// for the noise in `s` and `f`, which comes from the process's random numbers.

import CFlite
import Glibc
import Synchronization

/// The people whose recordings flite's voices are made of. All are sampled at 16 kHz.
enum FliteSpeaker: Int, CaseIterable {
    /// A woman, American; the clearest of them.
    case slt
    /// A man, American.
    case rms
    /// A man, Scottish.
    case awb
    /// A man, American; made of diphones, so it sounds artificial.
    case kal16

    fileprivate var name: String { ["slt", "rms", "awb", "kal16"][rawValue] }

    /// The speaker, in a few words of English.
    var description: String {
        switch self {
        case .slt: "a woman"
        case .rms: "a man"
        case .awb: "a Scottish man"
        case .kal16: "a man, artificial"
        }
    }
}

/// A copy of a voice: 16 kHz, mono. It is never freed, because flite would free the shared data
/// with it: keep it for reuse.
struct FliteVoice {
    /// Samples of a streamed piece. 1,600 (100 ms): their synthesis takes about 1 ms. Smaller
    /// pieces would arrive hardly sooner, and each costs a change of threads.
    static let pieceSamples: Int32 = 1_600

    /// The state of flite's callback during one call of `speak`.
    private struct SampleReceiver {
        var deliver: (UnsafeBufferPointer<Int16>) -> Bool
    }

    /// flite's own object. FliteVoice+Analysis uses it too.
    let voice: UnsafeMutablePointer<cst_voice>
    /// The streaming settings of flite; the voice's features own them.
    private let streaming: UnsafeMutablePointer<cst_audio_streaming_info>

    /// The registered voices, from which copies are made; nil before the first use. They are never
    /// used to speak. A voice's library is opened with its first use, because its tables take 2 MB.
    private static let registered = Mutex<[Registration?]>(
        Array(repeating: nil, count: FliteSpeaker.allCases.count))

    /// A voice that flite has registered; nil where its library is missing.
    private struct Registration: @unchecked Sendable {
        let voice: UnsafeMutablePointer<cst_voice>?
    }

    private static let isInitialised: Bool = {
        flite_init()
        return true
    }()

    private static func registered(_ speaker: FliteSpeaker) -> UnsafeMutablePointer<cst_voice>? {
        registered.withLock { voices in
            if let known = voices[speaker.rawValue] { return known }
            let made = Registration(voice: register(speaker))
            voices[speaker.rawValue] = made
            return made
        }.voice
    }

    private static func register(_ speaker: FliteSpeaker) -> UnsafeMutablePointer<cst_voice>? {
        typealias Register =
            @convention(c) (UnsafePointer<CChar>?) -> UnsafeMutablePointer<cst_voice>?
        guard isInitialised,
            let library = dlopen("libflite_cmu_us_\(speaker.name).so.1", RTLD_NOW | RTLD_LOCAL),
            let register = dlsym(library, "register_cmu_us_\(speaker.name)")
        else { return nil }
        return unsafeBitCast(register, to: Register.self)(nil)
    }

    /// Copies the registered voice; nil when its library is missing.
    init?(_ speaker: FliteSpeaker) {
        guard let registered = Self.registered(speaker), let copy = new_voice() else { return nil }
        copy.pointee.name = registered.pointee.name
        copy.pointee.utt_init = registered.pointee.utt_init
        Self.copyFeatures(of: registered.pointee.features, into: copy.pointee.features)
        Self.copyFeatures(of: registered.pointee.ffunctions, into: copy.pointee.ffunctions)
        SpelledNames.install(in: copy.pointee.features)
        streaming = new_audio_streaming_info()
        streaming.pointee.min_buffsize = Self.pieceSamples
        streaming.pointee.asc = { wave, start, count, _, info in
            guard let wave, let samples = wave.pointee.samples, count > 0,
                let receiver = info?.pointee.userdata?.assumingMemoryBound(to: SampleReceiver.self)
            else { return Int32(CST_AUDIO_STREAM_CONT) }
            let piece = UnsafeBufferPointer(start: samples + Int(start), count: Int(count))
            return receiver.pointee.deliver(piece)
                ? Int32(CST_AUDIO_STREAM_CONT) : Int32(CST_AUDIO_STREAM_STOP)
        }
        Self.set("streaming_info", to: audio_streaming_info_val(streaming), in: copy)
        voice = copy
    }

    /// Speaks a piece of text, which must be ASCII and contain a letter or digit.
    /// - Parameters:
    ///   - speed: 1 is the voice's own rate; flite stretches durations by the inverse.
    ///   - pitch: 1 is the voice's own; `rms` supports no other.
    ///   - deliver: receives runs of samples at 16 kHz as they are made; returns false to stop.
    /// - Returns: false when `deliver` stopped it.
    func speak(
        _ text: String, speed: Double, pitch: Double = 1,
        deliver: (UnsafeBufferPointer<Int16>) -> Bool
    ) -> Bool {
        Self.set("f0_shift", to: float_val(Float(pitch)), in: voice)
        Self.set("duration_stretch", to: float_val(Float(1 / speed)), in: voice)
        var isWanted = true
        withoutActuallyEscaping(deliver) { deliver in
            var receiver = SampleReceiver { piece in
                // flite may call once more after the callback has asked it to stop.
                if isWanted { isWanted = deliver(piece) }
                return isWanted
            }
            withUnsafeMutablePointer(to: &receiver) { receiver in
                streaming.pointee.userdata = UnsafeMutableRawPointer(receiver)
                // flite also returns the whole wave, which has been delivered by now.
                if let wave = flite_text_to_wave(text, voice) { delete_wave(wave) }
                streaming.pointee.userdata = nil
            }
        }
        return isWanted
    }

    /// Sets a feature. The name must be static, because flite keeps its address.
    private static func set(
        _ name: StaticString, to value: UnsafePointer<cst_val>?,
        in voice: UnsafeMutablePointer<cst_voice>
    ) {
        name.utf8Start.withMemoryRebound(to: CChar.self, capacity: name.utf8CodeUnitCount + 1) {
            feat_set(voice.pointee.features, $0, value)
        }
    }

    /// Copies features without sharing counted references. The data that they point to is shared.
    private static func copyFeatures(
        of source: UnsafeMutablePointer<cst_features>?,
        into destination: UnsafeMutablePointer<cst_features>?
    ) {
        var pair = source?.pointee.head
        while let feature = pair {
            if let value = feature.pointee.val {
                feat_set(destination, feature.pointee.name, copy(of: value))
            }
            pair = feature.pointee.next
        }
    }

    private static func copy(of value: UnsafePointer<cst_val>) -> UnsafePointer<cst_val> {
        // flite counts no references to lists and compiled-in constants.
        guard cst_val_consp(value) == 0, value.pointee.c.a.ref_count != -1 else { return value }
        let type = Int32(value.pointee.c.a.type)
        let copy: UnsafeMutablePointer<cst_val>? =
            switch type {
            case CST_VAL_TYPE_INT: int_val(val_int(value))
            case CST_VAL_TYPE_FLOAT: float_val(val_float(value))
            case CST_VAL_TYPE_STRING: string_val(val_string(value))
            default: val_new_typed(type, value.pointee.c.a.v.vval)
            }
        return UnsafePointer(copy!)
    }
}
