// The operator's configuration of MCP servers: a JSON file in the form that MCP's own clients
// share. Its object `mcpServers` has labels as keys; each value has `command`, `args` and `env`, or
// `url` and `headers`.

import Codec
import Session

/// An MCP server that the operator has configured.
public struct MCPServerConfiguration: Equatable, Sendable {
    /// How it is reached.
    public enum Transport: Equatable, Sendable {
        /// A program, its arguments, and `NAME=value` variables added to its usual environment.
        case program(command: [String], environment: [String])
        /// A URL, and header fields of every request.
        case http(url: String, headers: [MCPTool.Header])
    }

    /// The name by which clients refer to it.
    public var label: String
    /// How it is reached.
    public var transport: Transport

    /// Creates a configuration.
    public init(label: String, transport: Transport) {
        self.label = label
        self.transport = transport
    }

    /// Reads a configuration file.
    /// - Throws: `MCPConfigurationError`, which repeats no value of the file: values may be
    ///   secrets.
    public static func all(in file: [UInt8]) throws -> [MCPServerConfiguration] {
        let root: JSONValue
        do throws(JSONError) {
            root = try JSONParser().parse(String(decoding: file, as: UTF8.self))
        } catch {
            throw MCPConfigurationError("it is not JSON: \(error.explanation)")
        }
        guard let servers = root["mcpServers"]?.members else {
            throw MCPConfigurationError("it has no object 'mcpServers'")
        }
        return try servers.map { try MCPServerConfiguration(label: $0.key, $0.value) }
    }

    private init(label: String, _ value: JSONValue) throws {
        guard label.isServerLabel else {
            throw MCPConfigurationError(
                "'\(label)' is not a valid label: a letter, then letters, digits, '-' and '_'")
        }
        self.label = label
        if let command = value["command"]?.string {
            let arguments = try Self.texts(value["args"], "args of '\(label)'")
            let environment = try Self.pairs(value["env"], "env of '\(label)'")
            transport = .program(
                command: [command] + arguments,
                environment: environment.map { "\($0.name)=\($0.value)" })
        } else if let url = value["url"]?.string,
            url.hasPrefix("http://") || url.hasPrefix("https://")
        {
            let headers = try Self.pairs(value["headers"], "headers of '\(label)'")
            transport = .http(
                url: url, headers: try headers.map { try Self.header($0, of: label) })
        } else {
            throw MCPConfigurationError(
                "'\(label)' needs a command, or a url with http:// or https://")
        }
    }

    /// A field as it can be sent: a secret often ends with a line break that its writer does not see.
    private static func header(
        _ header: MCPTool.Header, of label: String
    ) throws -> MCPTool.Header {
        guard let value = SettingText.read(header.value) else {
            throw MCPConfigurationError(
                "headers of '\(label)' have a control character, such as a line break")
        }
        return MCPTool.Header(name: header.name, value: value)
    }

    private static func texts(_ value: JSONValue?, _ what: String) throws -> [String] {
        guard let value, !value.isNull else { return [] }
        guard let elements = value.elements else {
            throw MCPConfigurationError("\(what) is not an array")
        }
        return try elements.map {
            guard let text = $0.string else {
                throw MCPConfigurationError("\(what) must contain only strings")
            }
            return text
        }
    }

    private static func pairs(_ value: JSONValue?, _ what: String) throws -> [MCPTool.Header] {
        guard let value, !value.isNull else { return [] }
        guard let members = value.members else {
            throw MCPConfigurationError("\(what) is not an object")
        }
        return try members.map {
            guard let text = $0.value.string else {
                throw MCPConfigurationError("\(what) must contain only strings")
            }
            return MCPTool.Header(name: $0.key, value: text)
        }
    }
}

/// The first fault of a configuration file.
public struct MCPConfigurationError: Error, CustomStringConvertible {
    /// Names the fault, for the operator.
    public let description: String

    init(_ description: String) { self.description = description }
}
