// The protocol's names that the natural voice speaks. Its model is one woman; her sound played faster
// or slower is another woman's, with the pitch and the size of another throat. Scaling the pitch alone
// would not do: the model's filter is learnt at the harmonics, and others get too loud (measured:
// DNSMOS 2.9 instead of 3.3, and peaks that clip).
//
// FliteVoiceTable has the other names, and what speaks these names where the natural voice is missing.

import Codec

/// The rates of the natural voice by name.
enum NaturalVoiceTable {
    /// The model's own rate.
    static let rate = SampleRate.hz24000

    /// The rate at which a name's sound is played. Multiples of 50 Hz, in few steps of 48 kHz.
    static let rates: [String: SampleRate] = [
        "alloy": SampleRate(hertz: 21_000),
        "sage": SampleRate(hertz: 22_500),
        "marin": rate,
        "coral": SampleRate(hertz: 25_200),
        "nova": SampleRate(hertz: 26_400),
        "shimmer": SampleRate(hertz: 27_600),
    ]
}
