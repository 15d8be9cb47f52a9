// Files that options name, read whole: certificates, keys, lists of credentials. What is in them is
// their users' business.
//
// Invariant: every refusal is one line that names the option, the file, and what is wrong. Nothing
// of a file's content is ever in it.

import CLinux

/// Why an option, or what it names, cannot be used, as one line for the operator.
package struct OptionError: Error, Equatable, CustomStringConvertible, Sendable {
    /// The line, which begins with the option's name.
    package let description: String

    /// About one option.
    init(_ option: String, _ problem: String) { description = "\(option): \(problem)" }
}

/// The content of a file, and whose it is.
package struct ConfiguredFile: Sendable {
    /// Bytes beyond which a file cannot be what it should be. 1 MiB: a bundle of all public
    /// authorities takes a fifth of that.
    static let maxBytes = 1 << 20

    /// The option that named it, for example `tls-cert`.
    let option: String
    /// As it was given.
    let path: String
    let bytes: [UInt8]

    /// Takes bytes as a file's, for tests.
    package init(option: String, path: String, bytes: [UInt8]) {
        self.option = option
        self.path = path
        self.bytes = bytes
    }

    /// Reads a file.
    init(option: String, readingFrom path: String) throws(OptionError) {
        let descriptor = parley_open_readonly(path)
        guard descriptor >= 0 else { throw Self.unreadable(option, path) }
        defer { close(descriptor) }
        var content: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 16 << 10)
        while content.count <= Self.maxBytes {
            let count = read(descriptor, &buffer, buffer.count)
            guard count >= 0 else { throw Self.unreadable(option, path) }
            if count == 0 {
                self.init(option: option, path: path, bytes: content)
                return
            }
            content += buffer[..<count]
        }
        throw OptionError(option, "\(path) is larger than \(Self.maxBytes) bytes")
    }

    /// An objection to the content.
    func error(_ problem: String) -> OptionError { OptionError(option, "\(path) \(problem)") }

    private static func unreadable(_ option: String, _ path: String) -> OptionError {
        OptionError(option, "cannot read \(path): \(String(cString: strerror(parley_errno())))")
    }
}
