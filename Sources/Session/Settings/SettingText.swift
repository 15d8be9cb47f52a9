// The text of a setting as a person means it. Variables and files often end with a line break that
// their writer does not see: `echo KEY | base64`, a file of Windows, a template. Every reader of a
// key, a password, a URL or another value that a person writes takes it from here.

/// Reads texts that people write into settings.
package enum SettingText {
    /// The text without white space and byte order marks at both ends.
    /// - Returns: nil where a control character stands within it, such as a line break. No value has
    ///   one, and in a header field it would break the request (RFC 9110 §5.5).
    package static func read(_ text: some StringProtocol) -> String? {
        let scalars = text.unicodeScalars
        let rest = scalars.drop(while: isBlank)
        guard let last = rest.lastIndex(where: { !isBlank($0) }) else { return "" }
        let inner = rest[...last]
        return inner.contains(where: isControl) ? nil : String(String.UnicodeScalarView(inner))
    }

    private static func isBlank(_ scalar: Unicode.Scalar) -> Bool {
        scalar.properties.isWhitespace || scalar == "\u{FEFF}"
    }

    private static func isControl(_ scalar: Unicode.Scalar) -> Bool {
        scalar.properties.generalCategory == .control
    }
}
