// Commands as bytes, names of scripts, and the URLs of servers.

import Codec
import Testing

struct RedisCommandTests {
    private func text(_ command: RedisCommand) -> String {
        var bytes: [UInt8] = []
        command.encode(into: &bytes)
        return String(decoding: bytes, as: UTF8.self)
    }

    @Test("a command is an array of its words, whatever is in them")
    func encoding() {
        #expect(text(RedisCommand("PING")) == "*1\r\n$4\r\nPING\r\n")
        var command = RedisCommand("SET", "a\r\n*1", "")
        command.append(17)
        #expect(text(command) == "*4\r\n$3\r\nSET\r\n$5\r\na\r\n*1\r\n$0\r\n\r\n$2\r\n17\r\n")
        #expect(text(RedisCommand(words: [[], []])) == "*2\r\n$0\r\n\r\n$0\r\n\r\n")
    }

    @Test("a reader reads what a command writes")
    func roundTrip() throws {
        let words: [[UInt8]] = [Array("HSET".utf8), Array(0...255), [], [13, 10]]
        var bytes: [UInt8] = []
        RedisCommand(words: words).encode(into: &bytes)
        let reader = RedisReader()
        try bytes.withUnsafeBytes { try reader.feed($0) }
        #expect(try reader.next() == .array(words.map { .bulk($0) }))
    }

    @Test("a script is run by the hash of its text")
    func script() {
        // As `redis-cli script load "return 1"` answers.
        let script = RedisScript("return 1")
        #expect(script.digest == "e0e1f9fabfc9d4800c877a703b823ac0578ff8db")
        let command = RedisCommand(script, keys: ["a", "b"], arguments: [[1]])
        #expect(command.words.count == 6 && command.words[2] == Array("2".utf8))
        #expect(command.script == script)
        #expect(script.load.words.last == Array("return 1".utf8))
    }

    @Test("the parts of a URL")
    func address() throws {
        let plain = try #require(RedisAddress("redis://localhost"))
        #expect(!plain.isSecure && plain.host == "localhost" && plain.port == 6_379)
        #expect(plain.database == 0 && plain.password == nil && plain.user == nil)
        let whole = try #require(RedisAddress("rediss://ann:p%40ss%3A@[::1]:7000/3"))
        #expect(whole.isSecure && whole.host == "::1" && whole.port == 7_000)
        #expect(whole.user == "ann" && whole.password == "p@ss:" && whole.database == 3)
        let nameless = try #require(RedisAddress("redis://:secret@cache-1.example/"))
        #expect(nameless.user == nil && nameless.password == "secret")
    }

    @Test("a description has no credential")
    func description() throws {
        let address = try #require(RedisAddress("rediss://ann:secret@[::1]:7000/3"))
        #expect("\(address)" == "rediss://[::1]:7000/3")
    }

    @Test(
        "other texts are no addresses",
        arguments: [
            "", "localhost", "http://localhost", "redis://", "redis://host:", "redis://host:0",
            "redis://host:65536", "redis://host:-1", "redis://host/a", "redis://host/1/2",
            "redis://host/99999999999999999999", "redis://a b", "redis://user@host",
            "redis://user:@host", "redis://:%ff@host", "redis://[::1", "redis://[x]:1",
            "redis://host?db=1", "redis://host#1", "redis://ho%41st", "redis://höst",
        ])
    func badAddress(text: String) {
        #expect(RedisAddress(text) == nil)
    }
}
