// The configuration of `parley serve`: precedence, refusals, that the list of options is complete,
// and that the shipped example file and reference are made from it.

import Foundation
import Server
import Session
import TestMaterial
import Testing

@testable import parley

@Suite struct ServeConfigurationTests {
    private func load(
        _ arguments: [String] = [], environment: [String: String] = [:], file: String? = nil
    ) throws(CommandFailure) -> ServeInvocation {
        var loader = ServeConfigurationLoader()
        loader.readFile = { path throws(WholeFileError) in
            guard path == "a.yaml", let file else { throw .notUTF8 }
            return file
        }
        return try loader.load(arguments: arguments, environment: environment)
    }

    @Test func defaultsAreTheServersOwn() throws {
        let invocation = try load()
        #expect(invocation.settings.server.listener.port == ServerConfiguration().listener.port)
        #expect(invocation.settings.language.url == nil)
        #expect(invocation.origins.isEmpty)
    }

    @Test func flagsWinOverEnvironmentOverFileOverDefault() throws {
        let file = "port: 1001\nmax-sessions: 1001\nlog-level: debug\n"
        let environment = [
            "PARLEY_PORT": "1002", "PARLEY_MAX_SESSIONS": "1002", "PARLEY_CONFIG": "a.yaml",
        ]
        let invocation = try load(["--port=1003"], environment: environment, file: file)
        #expect(invocation.settings.server.listener.port == 1003)
        #expect(invocation.settings.server.admission.maxSessions == 1002)
        #expect(invocation.settings.logLevel == .debug)
        #expect(invocation.origins["port"] == .flag("--port"))
        #expect(invocation.origins["max-sessions"] == .environment(variable: "PARLEY_MAX_SESSIONS"))
        #expect(invocation.origins["log-level"] == .file(path: "a.yaml", line: 3))
    }

    @Test(arguments: ["", "# nothing but a comment\n", "---\n...\n"])
    func anEmptyFileChangesNothing(file: String) throws {
        #expect(try load(["--config", "a.yaml"], file: file).origins.isEmpty)
    }

    @Test func valuesMayBeQuotedAndCommented() throws {
        let file = "\u{FEFF}---\n'host': \"\\u00e9: #\" # why\nport: !!int 7\r\n"
        let invocation = try load(["--config", "a.yaml"], file: file)
        #expect(invocation.settings.server.listener.host == "é: #")
        #expect(invocation.settings.server.listener.port == 7)
        #expect(invocation.origins["port"] == .file(path: "a.yaml", line: 3))
    }

    @Test func theFlagNamesTheFileBeforeTheVariable() throws {
        let environment = ["PARLEY_CONFIG": "missing.yaml"]
        let invocation = try load(
            ["--config", "a.yaml"], environment: environment, file: "port: 7\n")
        #expect(invocation.settings.server.listener.port == 7)
    }

    @Test func theModelServerHasItsFixedVariables() throws {
        let environment = ["PARLEY_LLM_URL": "http://h/v1", "PARLEY_LLM_KEY": "secret"]
        let settings = try load(["--model", "m"], environment: environment).settings
        #expect(settings.language.url == "http://h/v1")
        #expect(settings.language.key == "secret")
        #expect(settings.language.name == "m")
        #expect(try load(["--llm", "http://k/v1"]).settings.language.url == "http://k/v1")
    }

    @Test(arguments: [
        (
            ["--port", "65536"], [:], "",
            "--port: \"65536\" is not allowed; it must be a whole number from 0 to 65535"
        ),
        (
            ["--log-format", "xml"], [:], "",
            "--log-format: \"xml\" is not allowed; it must be one of text, json"
        ),
        (["--prot", "1"], [:], "", "unknown option --prot; did you mean port?"),
        (["--port"], [:], "", "--port needs a value"),
        (["port"], [:], "", "unexpected argument \"port\"; see --help"),
        (
            [], ["PARLEY_SHARDS": "many"], "",
            "PARLEY_SHARDS: \"many\" is not allowed; it must be a whole number from 1 to 1024"
                + " (threads)"
        ),
        (
            ["--config", "a.yaml"], [:], "host: here\nidle-timeout-ms: 5\n",
            "a.yaml:2: idle-timeout-ms: \"5\" is not allowed; it must be a whole number from 100"
                + " to 86400000 (milliseconds)"
        ),
        (
            ["--config", "a.yaml"], [:], "\nshard: 2\n",
            "a.yaml:2: unknown key \"shard\"; did you mean shards?"
        ),
        (
            ["--config", "a.yaml"], [:], "port: [1]\n",
            "a.yaml:1: port: must be a whole number from 0 to 65535"
        ),
        (
            ["--config", "a.yaml"], [:], "a: [1\nb: 2",
            "a.yaml:2: not YAML: did not find expected ',' or ']'"
        ),
        (["--config", "a.yaml"], [:], "- port\n", "a.yaml: must be a list of `name: value` lines"),
        (["--config", "a.yaml"], [:], "port\n", "a.yaml: must be a list of `name: value` lines"),
        (
            ["--config", "a.yaml"], [:], "port:\n  port: 1\n",
            "a.yaml:1: port: must be a whole number from 0 to 65535"
        ),
        (
            ["--config", "a.yaml"], [:], "port: 1\nhost: h\nport: 2\n",
            "a.yaml:3: port is given twice"
        ),
        (
            ["--config", "a.yaml"], [:], "host: h\nport: &p 1\n",
            "a.yaml:2: anchors and aliases are not allowed"
        ),
        (
            ["--config", "a.yaml"], [:], "\nport: *p\n",
            "a.yaml:2: anchors and aliases are not allowed"
        ),
        (["--config", "a.yaml"], [:], "[port]: 1\n", "a.yaml:1: a name must be one word"),
        (
            ["--config", "a.yaml"], [:], "port: 1\n---\nport: 2\n",
            "a.yaml:2: a second document is not allowed"
        ),
        (
            ["--config", "a.yaml"], [:], "port: \u{1}\n",
            "a.yaml: not YAML: control characters are not allowed"
        ),
        (
            ["--config", "b.yaml"], [:], "",
            "--config: \"b.yaml\" is not UTF-8 text"
        ),
        (
            ["--config", "a.yaml"], [:],
            "host: h\nport: " + String(repeating: "[", count: 100),
            "a.yaml:2: lists and mappings may be nested 16 deep at most"
        ),
        (
            ["--config", "a.yaml"], [:], "a: " + String(repeating: "{a: ", count: 100_000),
            "a.yaml:1: lists and mappings may be nested 16 deep at most"
        ),
        (
            ["--config", "a.yaml"], [:], String(repeating: "- ", count: 100_000),
            "a.yaml:1: lists and mappings may be nested 16 deep at most"
        ),
        (
            ["--config", "a.yaml"], [:],
            "a: &a [x, x]\nb: [*a, *a]\n", "a.yaml:1: anchors and aliases are not allowed"
        ),
        (
            ["--llm-key", ""], ["PARLEY_LLM_URL": "localhost:1"], "",
            "PARLEY_LLM_URL: \"localhost:1\" is not allowed; it must be a URL that begins with"
                + " http:// or https://, or redis:// or rediss:// for redis-stream"
        ),
    ])
    func refusalsAreOneLineThatNamesItsSource(
        arguments: [String], environment: [String: String], file: String, line: String
    ) {
        #expect(throws: CommandFailure.usage(line)) {
            try load(arguments, environment: environment, file: file)
        }
    }

    @Test func kubernetesLinkToAServiceIsNotThePort() throws {
        let invocation = try load(environment: ["PARLEY_PORT": "tcp://10.0.0.1:80"])
        #expect(invocation.settings.server.listener.port == ServerConfiguration().listener.port)
        #expect(invocation.origins.isEmpty)
        #expect(
            invocation.warnings == [
                "PARLEY_PORT is ignored: \"tcp://10.0.0.1:80\" is Kubernetes' link to a service "
                    + "named parley, not a port"
            ])
    }

    @Test func theEffectiveConfigurationShowsUnitsAndOriginsAndHidesSecrets() throws {
        let invocation = try load(
            ["--max-message-bytes", "2048"], environment: ["PARLEY_LLM_KEY": "secret"])
        let lines = ServeText.effective(invocation).split(separator: "\n").map {
            $0.split(separator: " ").map(String.init)
        }
        #expect(lines.contains(["max-message-bytes", "2048", "bytes", "--max-message-bytes"]))
        #expect(lines.contains(["llm-key", "********", "PARLEY_LLM_KEY"]))
        #expect(lines.contains(["port", "8080", "default"]))
    }

    @Test(
        "A value that is absent is read as text (suricata#6105)",
        arguments: [
            "", "~", "null", "Null", "NULL", "!!null x", "# only a comment",
        ])
    func nullIsNotSet(word: String) throws {
        for option in ServeSettings.options {
            let file = "\(option.name): \(word)\n"
            let invocation = try load(["--config", "a.yaml"], file: file)
            #expect(option.get(invocation.settings) == option.get(ServeSettings()))
            #expect(invocation.origins.isEmpty)
        }
        let environment = ["PARLEY_API_KEY": "of-the-environment"]
        let settings = try load(
            ["--config", "a.yaml"], environment: environment, file: "api-key: \(word)\n"
        ).settings
        #expect(settings.server.credentials.apiKey == "of-the-environment")
    }

    @Test(arguments: ["\"null\"", "'~'", "!!str null", "! ~", "nulls", "nULL"])
    func otherSpellingsAreText(word: String) throws {
        let settings = try load(["--config", "a.yaml"], file: "api-key: \(word)\n").settings
        #expect(settings.server.credentials.apiKey?.isEmpty == false)
    }

    @Test func aFieldThatIsNullIsLeftOut() throws {
        let file = """
            providers:
              - {name: a, url: "http://a/v1", key-env: null, models: [m, ~]}
              - null
            """
        let providers = try load(["--config", "a.yaml"], file: file).settings.language.providers
        #expect(providers.map(\.description) == ["name=a url=http://a/v1 models=m"])
    }

    @Test(
        "Secrets with a line break (kthena#1636)", arguments: ["\n", "\r\n", " ", "\t", "\u{FEFF}"])
    func valuesAreTrimmed(blank: String) throws {
        let key = "a-key-of-enough-length"
        let environment = [
            "PARLEY_API_KEY": blank + key + blank, "PARLEY_PORT": "7\(blank)",
            "PARLEY_LLM_URL": "http://h/v1\(blank)", "OTHER": "secret\(blank)",
        ]
        let settings = try load(
            ["--jwt-secret=\(key)\(blank)", "--providers=name=o url=http://o/v1 key-env=OTHER"],
            environment: environment
        ).settings
        #expect(
            settings.server.credentials.apiKey == key
                && settings.server.credentials.jwtSecret == key)
        #expect(settings.server.listener.port == 7 && settings.language.url == "http://h/v1")
    }

    @Test(arguments: ["\n", "\r\n", "\0", "\u{7F}", "\u{85}"])
    func aControlCharacterWithinIsRefusedWithoutShowingTheValue(character: String) {
        let text = "secret\(character)more"
        let problem = "a control character, such as a line break, stands within the value"
        for option in ServeSettings.options where option.isSecret {
            #expect(throws: CommandFailure.usage("\(option.variable): \(problem)")) {
                try load(environment: [option.variable: text])
            }
        }
        #expect(
            throws: CommandFailure.usage(
                "--providers: providers: the environment variable OTHER of o has a control "
                    + "character, such as a line break, within its value")
        ) {
            try load(
                ["--providers", "name=o url=http://o/v1 key-env=OTHER"],
                environment: ["OTHER": text])
        }
    }

    @Test(arguments: [
        "10.0.0.1, 192.168.0.0/16", "10.0.0.1,192.168.0.0/16", "[10.0.0.1, 192.168.0.0/16]",
        "\n  - 10.0.0.1\n  - 192.168.0.0/16", "\n- \"10.0.0.1\"\n- 192.168.0.0/16",
    ])
    func aListMayBeGivenWithCommasOrAsASequence(value: String) throws {
        let file = "trusted-proxies: \(value)\nport: 7\n"
        let settings = try load(["--config", "a.yaml"], file: file).settings
        #expect(
            settings.server.admission.trustedProxies.map(\.description) == [
                "10.0.0.1", "192.168.0.0/16",
            ])
        #expect(settings.server.listener.port == 7)
    }

    @Test(arguments: ["\"\"", "[]", "[null]"])
    func aListMayBeEmpty(value: String) throws {
        let file = "unlimited-addresses: \(value)\n"
        let settings = try load(["--config", "a.yaml"], file: file).settings
        #expect(settings.server.admission.unlimitedAddresses == [])
        #expect(ServeSettings().server.admission.unlimitedAddresses.count == 2)
    }

    @Test(arguments: ["[10.0.0.1, [10.0.0.2]]", "[10.0.0.1, {a: b}]", "{a: 10.0.0.1}"])
    func aListHoldsPlainValuesOnly(value: String) {
        let line =
            "a.yaml:1: trusted-proxies: must be addresses or ranges, with commas between"
        #expect(throws: CommandFailure.usage(line)) {
            try load(["--config", "a.yaml"], file: "trusted-proxies: \(value)\nport: 7\n")
        }
    }

    @Test(arguments: ["10.0.0.1/8", "10.0.0.1,,10.0.0.2", "10.0.0.1,", "localhost", "*"])
    func aListWithABadValueIsRefused(value: String) {
        #expect(throws: CommandFailure.self) { try load(["--trusted-proxies", value]) }
    }

    @Test func providersAreMappingsInAFileAndFieldsInAFlag() throws {
        let file = """
            providers:
              - name: claude
                kind: anthropic
                url: https://c.test/v1
                models: [claude-*, opus]
                key-env: C_KEY
                model: claude-4
                vision: true
                max-tokens: 100
                fallback: spare
              - {name: spare, url: "http://s.test/v1", stream-options: never}
              - name: brain
                kind: responses
                url: http://b.test/v1
                keep-state: true
                concurrency: 16
                queue: 0
              - name: team
                kind: redis-stream
                url: redis://r.test
                stream: jobs
                group: b
                lease-ms: 2000
                pickup-ms: 500
                attempts: 1
                max-jobs: 7
            port: 7
            """
        let text =
            "name=claude url=https://c.test/v1 kind=anthropic vision=true models=claude-*|opus "
            + "key-env=C_KEY model=claude-4 max-tokens=100 fallback=spare,"
            + "name=spare url=http://s.test/v1 stream-options=never,name=brain url=http://b.test/v1 kind=responses "
            + "keep-state=true concurrency=16 queue=0,"
            + "name=team url=redis://r.test kind=redis-stream stream=jobs group=b lease-ms=2000 "
            + "pickup-ms=500 attempts=1 max-jobs=7"
        let environment = ["C_KEY": "secret"]
        let fromFile = try load(["--config", "a.yaml"], environment: environment, file: file)
        let fromFlag = try load(["--providers", text], environment: environment)
        let claude = try #require(fromFile.settings.language.providers.first)
        #expect(fromFile.settings.server.listener.port == 7)
        #expect(fromFile.settings.language.providers.count == 4)
        #expect(fromFile.settings.language.providers == fromFlag.settings.language.providers)
        #expect(claude.kind == .anthropic && claude.seesImages && claude.fallback == "spare")
        #expect(claude.models.map(\.description) == ["claude-*", "opus"])
        #expect(!claude.keepsState && claude.concurrency == 0 && claude.maxWaiting == 64)
        let brain = fromFile.settings.language.providers[2]
        #expect(brain.keepsState && brain.concurrency == 16 && brain.maxWaiting == 0)
        let team = fromFile.settings.language.providers[3]
        #expect(team.jobs.stream == "jobs" && team.jobs.group == "b" && team.jobs.attempts == 1)
        #expect(team.jobs.lease == .seconds(2) && team.jobs.pickup == .milliseconds(500))
        #expect(team.jobs.maxJobs == 7 && brain.jobs.maxJobs == 1_000)
        #expect(ServeText.effective(fromFile).contains(text))
    }

    @Test(arguments: [
        "[{name: a}]", "[{url: 'http://a'}]", "[{name: a, url: 'ftp://a'}]", "[a, {name: a}]",
        "[{name: a, url: 'http://a', kind: grpc}]", "[{name: a, url: 'http://a', speed: 1}]",
        "[{name: a/b, url: 'http://a'}]", "[{name: a, url: 'http://a', models: 'a*b'}]",
        "[{name: a, url: 'http://a', kind: anthropic, audio: true}]",
        "[{name: a, url: 'http://a', keep-state: true}]",
        "[{name: a, url: 'http://a', concurrency: -1}]", "[{name: a, url: 'http://a', queue: 1e3}]",
        "[{name: a, url: 'http://a', queue: 10001}]",
        "[{name: a b, url: 'http://a'}]", "[[name]]", "{name: a}",
        "[{name: a, url: 'http://a', kind: redis-stream}]", "[{name: a, url: 'redis://a'}]",
        "[{name: a, url: 'redis://a', kind: redis-stream, lease-ms: 999}]",
        "[{name: a, url: 'redis://a', kind: redis-stream, attempts: 0}]",
        "[{name: a, url: 'http://a', stream: jobs}]",
        "[{name: a, url: 'http://a', models: [[x]]}]", "[{name: a, url: 'http://a', model: {}}]",
    ])
    func aProviderWithABadFieldIsRefused(value: String) {
        let failure = #expect(throws: CommandFailure.self) {
            try load(["--config", "a.yaml"], file: "providers: \(value)\n")
        }
        #expect(failure?.description.hasPrefix("a.yaml:1: providers: ") == true)
    }

    @Test(arguments: [
        (["--llm", "redis://a"], "a URL of Redis wants llm-kind redis-stream"),
        (
            ["--llm", "http://a", "--llm-kind", "redis-stream"],
            "llm-kind redis-stream wants a URL that begins with redis:// or rediss://"
        ),
    ])
    func aURLMustFitItsKind(arguments: [String], problem: String) throws {
        #expect(throws: CommandFailure.usage("--llm: llm-url: \(problem)")) {
            try load(arguments)
        }
        let fitting = try load(["--llm", "rediss://a:1", "--llm-kind", "redis-stream"])
        #expect(fitting.settings.language.url == "rediss://a:1")
    }

    @Test(arguments: [
        ("[{name: a, url: 'http://a', fallback: b}]", "the fallback b is no provider"),
        ("[{name: a, url: 'http://a', fallback: llm}]", "the fallback llm is no provider"),
        (
            "[{name: a, url: 'http://a', key-env: NO_SUCH}]",
            "the environment variable NO_SUCH of a is not set"
        ),
        (
            "[{name: llm, url: 'http://a'}]",
            "the name llm is given twice (llm is that of llm-url)"
        ),
    ])
    func whatProvidersNameMustExist(value: String, problem: String) {
        #expect(throws: CommandFailure.usage("a.yaml:1: providers: \(problem)")) {
            try load(["--config", "a.yaml"], file: "providers: \(value)\n")
        }
    }

    @Test func everyValueThatAnOptionShowsCanBeGivenToIt() {
        for option in ServeSettings.options {
            var settings = ServeSettings()
            let value = option.get(settings)
            let isAccepted = option.set(value, &settings)
            #expect(isAccepted, "\(option.name)'s own default \(value) is refused")
            #expect(option.get(settings) == value)
        }
    }

    @Test func everyLimitOfTheServerHasAnOption() {
        // Each option changes one field; a field that no option changes was forgotten.
        func fields(_ value: Any, prefix: String = "") -> [String: String] {
            var result: [String: String] = [:]
            for case (let label?, let child) in Mirror(reflecting: value).children {
                let type = "\(type(of: child))"
                if type.hasSuffix("Settings") || child is SessionLimits {
                    result.merge(fields(child, prefix: "\(prefix)\(label).")) { $1 }
                } else {
                    result[prefix + label] = "\(child)"
                }
            }
            return result
        }
        let standard = fields(ServerConfiguration())
        var changed: Set<String> = []
        for option in ServeSettings.options {
            var settings = ServeSettings()
            let candidates = [
                "2", "100", "101", "65536", "65537", "true", "false", "optional", "other",
                "required", "asked", "strict", "brief",
                "10.0.0.0/8", "https://example.com", "turns=20/minute",
                "redis://localhost", "twilio",
            ]
            for candidate in candidates where candidate != option.get(settings) {
                if option.set(candidate, &settings) { break }
            }
            for (name, value) in fields(settings.server) where value != standard[name] {
                changed.insert(name)
            }
        }
        #expect(Set(standard.keys).subtracting(changed) == [])
    }

    @Test(arguments: [
        (ServeText.example, "parley.example.yaml"), (.reference, "docs/configuration.md"),
    ])
    func theShippedTextsAreWhatTheOptionsSay(text: ServeText, file: String) throws {
        let made = text == .example ? ServeText.exampleFile() : ServeText.referencePage()
        if let difference = try GoldenFile(file).difference(from: made) {
            Issue.record("\(difference)")
        }
    }

    @Test(arguments: [
        ("telephone: twillio", "a.yaml:1: telephone", "carriers (twilio, signalwire, telnyx,"),
        ("log-level: loud", "a.yaml:1: log-level", "one of trace, debug, info,"),
        (
            "providers:\n- {name: a, url: http://h/v1, kind: openai}", "kind \"openai\"",
            "one of chat, anthropic, responses,"
        ),
        (
            "providers:\n- {name: a, url: http://h/v1, vision: maybe}", "vision \"maybe\"",
            "one of true, false"
        ),
    ])
    func aRefusedWordListsTheAllowedOnes(file: String, place: String, words: String) throws {
        let failure = #expect(throws: CommandFailure.self) {
            try load(["--config", "a.yaml"], file: file)
        }
        let text = try #require(failure?.description)
        #expect(text.contains(place) && text.contains(words), "\(text)")
    }

    @Test func mostPeopleNeedADozenOptions() {
        #expect(ServeSettings.common.options.count == 12)
        let help = ServeText.list([ServeSettings.common])
        #expect(help.contains("--llm-url") && !help.contains("--max-header-bytes"))
        #expect(ServeText.exampleFile().split(separator: "\n# ----")[1].contains("#host:"))
        #expect(Set(ServeSettings.options.map(\.name)).count == ServeSettings.options.count)
    }

    @Test(arguments: ServeText.allCases)
    func aFlagAsksForEachText(text: ServeText) throws {
        #expect(try load(["--\(text.rawValue)"]).text == text)
        #expect(try load().text == nil)
    }

    @Test func theExampleFileIsAConfigurationWhenUncommented() throws {
        let text = ServeText.exampleFile().split(separator: "\n")
            .map { $0.hasPrefix("#") && !$0.hasPrefix("# ") ? $0.dropFirst() : $0 }
            .joined(separator: "\n")
        let invocation = try load(["--config", "a.yaml"], file: text)
        #expect(Set(invocation.origins.keys) == Set(ServeSettings.options.map(\.name)))
    }
}
