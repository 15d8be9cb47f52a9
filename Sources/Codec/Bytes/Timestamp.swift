// A time of day as text, as logs, records and webhooks write it. It reads no clock.

import Glibc

/// A time of day in UTC.
public enum Timestamp {
    /// RFC 3339 with milliseconds, such as `2026-11-23T20:09:16.290Z`.
    /// - Parameter milliseconds: since 1970-01-01T00:00:00Z.
    public static func text(milliseconds: Int) -> String {
        let ofSecond = ((milliseconds % 1_000) + 1_000) % 1_000
        var seconds = time_t((milliseconds - ofSecond) / 1_000)
        var parts = tm()
        gmtime_r(&seconds, &parts)
        let date = [
            digits(Int(parts.tm_year) + 1_900, 4), digits(Int(parts.tm_mon) + 1, 2),
            digits(Int(parts.tm_mday), 2),
        ]
        let clock = [Int(parts.tm_hour), Int(parts.tm_min), Int(parts.tm_sec)].map { digits($0, 2) }
        return date.joined(separator: "-") + "T" + clock.joined(separator: ":")
            + ".\(digits(ofSecond, 3))Z"
    }

    private static func digits(_ value: Int, _ count: Int) -> String {
        let text = String(value)
        return String(repeating: "0", count: max(0, count - text.utf8.count)) + text
    }
}
