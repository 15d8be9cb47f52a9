// From flags, environment and one YAML file to the effective settings. A flag wins over the
// environment variable, the variable over the file, the file over the default. Every refusal is one
// line that names its source. Only the file is read from outside. The options are in ServeSettings,
// what a file may look like is in YAMLValue, and the known variables are in EnvironmentNames.
//
// An unknown name is refused on the command line and in the file, because both are written for this
// program alone. In the environment it is a warning: other programs have variables there too.

import Server
import Session
import YAML

/// The source of a value.
enum SettingOrigin: Equatable, CustomStringConvertible {
    case standard
    /// Path as it was given, and the key's line, 1 for the first.
    case file(path: String, line: Int)
    case environment(variable: String)
    case flag(String)

    var description: String {
        switch self {
        case .standard: "default"
        case .file(let path, let line): "\(path):\(line)"
        case .environment(let variable): variable
        case .flag(let flag): flag
        }
    }
}

/// The result of reading all sources: settings, and what to do with them.
struct ServeInvocation {
    /// The effective values.
    var settings = ServeSettings()
    /// Origin of every value that is not a default, by option name.
    var origins: [String: SettingOrigin] = [:]
    /// The text that is printed in place of a start, or nil.
    var text: ServeText?
    /// Whether `--strict` was given: a warning is then a refusal.
    var isStrict = false
    /// Warnings, for example about variables that no option has.
    var warnings: [String] = []
}

/// Merges the sources of settings.
struct ServeConfigurationLoader {
    /// Reads a whole file as text.
    var readFile: @Sendable (_ path: String) throws(WholeFileError) -> String = {
        path throws(WholeFileError) in try WholeFile.readText(path)
    }

    /// Merges flags, environment and the file that either of them names.
    /// - Parameter isToServe: whether the variables that providers name must exist.
    /// - Throws: a `CommandFailure` with status 64.
    func load(
        arguments: [String], environment: [String: String], isToServe: Bool = true
    ) throws(CommandFailure) -> ServeInvocation {
        var invocation = ServeInvocation()
        let flags = try parse(arguments, into: &invocation)
        let named = flags.last { $0.name == Self.configName }
        if let path = named?.value ?? environment[Self.configVariable] {
            let source = named == nil ? Self.configVariable : "--\(Self.configName)"
            try apply(fileAt: path, namedBy: source, to: &invocation)
        }
        try apply(environment, to: &invocation)
        for flag in flags where flag.name != Self.configName {
            guard let option = ServeSettings.option(flagged: flag.name) else { continue }
            try apply(flag.value, of: option, from: .flag("--\(flag.name)"), to: &invocation)
        }
        if isToServe { try checkProviders(of: invocation, environment) }
        if let warning = EnvironmentNames(settings: invocation.settings).warning(for: environment) {
            invocation.warnings.append(warning)
        }
        if invocation.isStrict, !invocation.warnings.isEmpty {
            throw .usage("--strict: " + invocation.warnings.joined(separator: "; "))
        }
        return invocation
    }

    private static let configName = "config"
    /// The variable that names the file.
    static let configVariable = "PARLEY_CONFIG"
    /// Kubernetes sets the same variable to a service's address, `tcp://10.0.0.1:80`, beside a
    /// service that is named parley.
    private static let portVariable = "PARLEY_PORT"

    private func apply(
        _ text: String, of option: ServeOption, from origin: SettingOrigin,
        to invocation: inout ServeInvocation
    ) throws(CommandFailure) {
        let source = if case .file = origin { "\(origin): \(option.name)" } else { "\(origin)" }
        guard let text = SettingText.read(text) else {
            throw .usage(
                "\(source): a control character, such as a line break, stands within the value")
        }
        guard option.set(text, &invocation.settings) else {
            if !option.isSecret, let problem = option.problem(text) {
                throw .usage("\(source): \(problem.visible())")
            }
            let shown = option.isSecret ? "the value" : shortened(text)
            throw .usage("\(source): \(shown) is not allowed; it must be \(option.allowed)")
        }
        invocation.origins[option.name] = origin
    }

    /// Checks that URLs fit their kinds, and that the fallbacks and variables that providers name
    /// exist.
    private func checkProviders(
        of invocation: ServeInvocation, _ environment: [String: String]
    ) throws(CommandFailure) {
        let settings = invocation.settings.language
        if let problem = settings.urlProblem {
            throw .usage("\(invocation.origins["llm-url"] ?? .standard): llm-url: \(problem)")
        }
        guard let problem = settings.providersProblem(environment) else { return }
        throw .usage("\(invocation.origins["providers"] ?? .standard): providers: \(problem)")
    }

    // MARK: Flags

    private func parse(
        _ arguments: [String], into invocation: inout ServeInvocation
    ) throws(CommandFailure) -> [(name: String, value: String)] {
        var flags: [(name: String, value: String)] = []
        var rest = arguments[...]
        while let argument = rest.popFirst() {
            switch argument {
            case "--strict": invocation.isStrict = true
            case _ where ServeText(flag: argument) != nil:
                invocation.text = ServeText(flag: argument)
            default:
                guard argument.hasPrefix("--") else {
                    throw .usage("unexpected argument \(shortened(argument)); see --help")
                }
                let parts = argument.dropFirst(2).split(
                    separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
                var name = String(parts[0])
                if let current = FormerNames.current(name) {
                    invocation.warnings.append(
                        FormerNames.warning("--\(name)", is: "--\(current)"))
                    name = current
                }
                let option = ServeSettings.option(flagged: name)
                guard name == Self.configName || option != nil else {
                    throw .usage("unknown option --\(name)\(suggestion(for: name))")
                }
                if parts.count == 2 {
                    flags.append((name, String(parts[1])))
                } else if option?.form == .toggle, rest.first?.hasPrefix("--") ?? true {
                    flags.append((name, "true"))
                } else if let value = rest.popFirst() {
                    flags.append((name, value))
                } else {
                    throw .usage("--\(name) needs a value")
                }
            }
        }
        return flags
    }

    // MARK: Environment

    private func apply(
        _ environment: [String: String], to invocation: inout ServeInvocation
    ) throws(CommandFailure) {
        for (variable, option) in FormerNames.variables {
            guard let text = environment[variable] else { continue }
            invocation.warnings.append(FormerNames.warning(variable, is: option.variable))
            let origin = SettingOrigin.environment(variable: variable)
            try apply(text, of: option, from: origin, to: &invocation)
        }
        for option in ServeSettings.options {
            guard let text = environment[option.variable] else { continue }
            if option.variable == Self.portVariable, text.hasPrefix("tcp://") {
                invocation.warnings.append(
                    "PARLEY_PORT is ignored: \(jsonString(text)) is Kubernetes' link to a service "
                        + "named parley, not a port")
                continue
            }
            let origin = SettingOrigin.environment(variable: option.variable)
            try apply(text, of: option, from: origin, to: &invocation)
        }
    }

    // MARK: File

    private func apply(
        fileAt path: String, namedBy source: String, to invocation: inout ServeInvocation
    ) throws(CommandFailure) {
        let text: String
        do throws(WholeFileError) {
            text = try readFile(path)
        } catch {
            throw .usage("\(source): \(error.problem(of: jsonString(path)))")
        }
        for member in try members(in: text, path: path) {
            let place = "\(path):\(member.line)"
            let current = FormerNames.current(member.key)
            if let current {
                invocation.warnings.append(
                    "\(place): " + FormerNames.warning(member.key, is: current))
            }
            guard let option = ServeSettings.option(named: current ?? member.key) else {
                let near = suggestion(for: member.key)
                throw .usage("\(place): unknown key \(shortened(member.key))\(near)")
            }
            // Null is no value: another source or the default decides.
            if member.value.isNull { continue }
            // A document that stands here in place of a file is read again at SIGHUP.
            if option.form == .document, member.value.text == nil {
                let origin = SettingOrigin.file(path: path, line: member.line)
                try apply("\(path)#\(member.key)", of: option, from: origin, to: &invocation)
                continue
            }
            guard let value = member.value.optionText(option.form) else {
                throw .usage("\(place): \(option.name): must be \(option.allowed)")
            }
            let origin = SettingOrigin.file(path: path, line: member.line)
            try apply(value, of: option, from: origin, to: &invocation)
        }
    }

    private func members(
        in text: String, path: String
    ) throws(CommandFailure) -> [YAMLValue.Member] {
        do throws(YAMLError) {
            guard let root = try YAMLValue.document(in: text) else { return [] }
            guard case .map(let members) = root else {
                throw YAMLError(problem: "must be a list of `name: value` lines")
            }
            return members
        } catch {
            let place = error.line.map { "\(path):\($0)" } ?? path
            throw .usage("\(place): \(error.problem)")
        }
    }

    // MARK: Near misses

    private func suggestion(for name: String) -> String {
        let near = nearestName(to: name, among: ServeSettings.options.map(\.name))
        return near.map { "; did you mean \($0)?" } ?? "; see parley serve --help"
    }
}
