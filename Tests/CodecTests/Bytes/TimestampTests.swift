// Times of day as text.

import Codec
import Testing

@Suite struct TimestampTests {
    @Test(arguments: [
        (0, "1970-01-01T00:00:00.000Z"), (1_001, "1970-01-01T00:00:01.001Z"),
        (-1, "1969-12-31T23:59:59.999Z"), (951_782_400_000, "2000-02-29T00:00:00.000Z"),
        (1_795_464_556_290, "2026-11-23T20:09:16.290Z"),
    ])
    func text(_ milliseconds: Int, _ text: String) {
        #expect(Timestamp.text(milliseconds: milliseconds) == text)
    }
}
