// Files that options name, read whole: certificates, keys, lists of credentials.
//
// Invariant: every refusal is one line that names the option, the file, and the rule that is broken.
// It never contains a part of the file.

/// Why an option, or what it names, cannot be used, as one line for the operator.
package struct OptionError: Error, Equatable, CustomStringConvertible, Sendable {
    /// The line, which begins with the option's name.
    package let description: String

    /// About one option.
    init(_ option: String, _ problem: String) { description = "\(option): \(problem)" }
}

/// The content of a file, and the option that named it.
package struct ConfiguredFile: Sendable {
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

    /// Reads a file of at most `WholeFile.maxTextBytes`, without a byte order mark.
    init(option: String, readingFrom path: String) throws(OptionError) {
        do throws(WholeFileError) {
            self.init(
                option: option, path: path, bytes: WholeFile.withoutMark(try WholeFile.read(path)))
        } catch {
            throw OptionError(option, error.problem(of: path))
        }
    }

    /// An objection to the content.
    func error(_ problem: String) -> OptionError { OptionError(option, "\(path) \(problem)") }
}
