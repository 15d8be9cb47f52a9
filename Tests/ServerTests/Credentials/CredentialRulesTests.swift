// Keys, rules for tokens, client secrets and places as values: no shard, no sockets.

import Codec
import Session
import Simulation
import Testing

@testable import Server

@Suite struct CredentialRulesTests {
    private func file(_ text: String) -> ConfiguredFile {
        ConfiguredFile(option: "api-keys-file", path: "keys.txt", bytes: Array(text.utf8))
    }

    private func keys(_ text: String) throws(OptionError) -> APIKeys {
        var keys = APIKeys()
        try keys.add(file(text))
        return keys
    }

    // MARK: Keys

    @Test func aFileHasAKeyPerLineAndItsProperties() throws {
        let keys = try keys(
            """
            # comment

            first-key-0123456789
              second-key-0123456789\tname=shop max-sessions=2   max-session-seconds=60 models=a,b \r
            third-key-0123456789 operator
            """)
        #expect(keys.count == 3 && keys.guessable.isEmpty)
        let first = try #require(keys.key(of: SHA256Digest(of: "first-key-0123456789")))
        #expect(!first.isOperator && first.allowance == SessionAllowance() && first.name == nil)
        let second = try #require(keys.key(of: SHA256Digest(of: "second-key-0123456789")))
        #expect(second.name == "shop")
        #expect(
            second.allowance
                == SessionAllowance(maxSessions: 2, maxSessionSeconds: 60, models: ["a", "b"]))
        #expect(keys.key(of: SHA256Digest(of: "third-key-0123456789"))?.isOperator == true)
        for other in ["", "#", "first-key-012345678", "first-key-0123456789 ", "operator"] {
            #expect(keys.key(of: SHA256Digest(of: other)) == nil, "\(other)")
        }
    }

    /// Hashes are compared, by OpenSSL's CRYPTO_memcmp, and a presented key is compared with every
    /// key. So the time reveals neither where two keys differ nor which key matches.
    @Test("Credentials compared in variable time (CVE-2021-33880)")
    func everyKeyIsComparedEveryTime() throws {
        let names = (0..<50).map { "key-\($0)-0123456789abcdef" }
        let keys = try keys(names.joined(separator: "\n"))
        for shown in [names[0], names[25], names[49], "x" + names[0].dropFirst(), "", "other"] {
            let digest = SHA256Digest(of: shown)
            var comparisons = 0
            let found = keys.key(of: digest) { key, other in
                comparisons += 1
                #expect(other == digest, "the hash, never the text")
                return key.matches(other)
            }
            #expect(comparisons == 50)
            #expect((found != nil) == names.contains(shown))
        }
    }

    @Test(arguments: [
        "word", "max-sessions=0", "max-sessions=x", "max-session-seconds=604801", "max-sessions=",
        "models=", "name", "OPERATOR", "Max-Sessions=1", "operator=yes",
    ])
    func aLineThatIsNotUnderstoodIsRefusedWithoutQuotingIt(word: String) {
        let secret = "sk-very-secret-0123456789"
        for line in ["\(secret) \(word)", "name=\(secret) \(secret) \(word)"] {
            let error = #expect(throws: OptionError.self) { try keys("# first\n\(line)") }
            #expect(error?.description.hasPrefix("api-keys-file: keys.txt line 2: ") == true)
            #expect(error?.description.contains("secret") == false)
        }
    }

    @Test func aKeyThatCannotBeSentOrIsThereTwiceIsRefused() throws {
        #expect(throws: OptionError.self) { try keys("schlüssel-0123456789") }
        #expect(throws: OptionError.self) { try keys("key-0123456789abcdef\nkey-0123456789abcdef") }
        var option = APIKeys()
        try option.add(option: "one-0123456789abcdef, two-0123456789abcdef,")
        #expect(option.count == 2)
        #expect(option.key(of: SHA256Digest(of: "two-0123456789abcdef"))?.isOperator == true)
        #expect(throws: OptionError.self) { try option.add(option: "one-0123456789abcdef") }
    }

    @Test func aShortSecretIsNamedAndNotShown() throws {
        #expect(try keys("hunter2").guessable == ["keys.txt line 1"])
        var configuration = ServerConfiguration()
        configuration.credentials.apiKey = "hunter2,a-key-of-enough-length"
        configuration.telephone.secret = "fifteen-letters"
        configuration.telephone.twilioAuthToken = "sixteen-letters!"
        configuration.telephone.plivoAuthToken = "x"
        let lines = try CredentialRules(
            configuration.credentials, secrets: configuration.telephone.secrets
        ).guessable
        let names = lines.map { String($0.prefix { $0 != ":" }) }
        #expect(names == ["api-key", "telephone-secret", "plivo-auth-token"])
        #expect(lines.allSatisfy { !$0.contains("hunter2") && $0.contains("openssl rand") })
    }

    @Test func keysAreLimited() {
        let many = (0...APIKeys.maxKeys).map { "key-\($0)-0123456789" }.joined(separator: "\n")
        #expect(throws: OptionError.self) { try keys(many) }
    }

    // MARK: Tokens

    private func policy(
        audience: String? = nil, issuer: String? = nil, leeway: Int = 30
    ) throws -> TokenPolicy {
        let key = try #require(JSONWebKey(secret: Array(TestToken.secret.utf8)))
        var policy = TokenPolicy(keys: JSONWebKeySet([key]))
        policy.audience = audience
        policy.issuer = issuer
        policy.leewaySeconds = leeway
        return policy
    }

    private func reason(_ claims: String, _ policy: TokenPolicy) -> RefusalReason? {
        do {
            _ = try policy.caller(of: TestToken.make(claims), at: 1_000)
            return nil
        } catch {
            return error
        }
    }

    @Test(
        arguments: [
            (#"{"exp":1001}"#, nil), (#"{"exp":1000}"#, .expiredCredential),
            (#"{"exp":0}"#, .expiredCredential), (#"{"exp":-1e300}"#, .malformedCredential),
            (#"{"exp":1e300}"#, .malformedCredential), (#"{}"#, .wrongClaims),
            (#"{"exp":253402300799}"#, nil), (#"{"exp":253402300800}"#, .malformedCredential),
            (#"{"exp":2000,"nbf":1000}"#, nil), (#"{"exp":2000,"nbf":1001}"#, .wrongClaims),
            (#"{"exp":2000,"iat":1001}"#, .wrongClaims), (#"{"exp":2000,"iat":0}"#, nil),
            (#"{"exp":1000.5}"#, nil),
        ] as [(String, RefusalReason?)])
    func aTokenHasItsTime(claims: String, expected: RefusalReason?) throws {
        #expect(reason(claims, try policy(leeway: 0)) == expected)
    }

    @Test func clocksMayDifferByTheLeeway() throws {
        let policy = try policy(leeway: 30)
        #expect(reason(#"{"exp":971}"#, policy) == nil)
        #expect(reason(#"{"exp":970}"#, policy) == .expiredCredential)
        #expect(reason(#"{"exp":2000,"nbf":1030,"iat":1030}"#, policy) == nil)
        #expect(reason(#"{"exp":2000,"nbf":1031}"#, policy) == .wrongClaims)
    }

    @Test func aTokenForAnotherServerIsRefused() throws {
        let open = try policy()
        #expect(reason(#"{"exp":2000,"aud":"voice"}"#, open) == .wrongClaims)
        #expect(reason(#"{"exp":2000,"aud":[]}"#, open) == nil)
        let voice = try policy(audience: "voice", issuer: "idp")
        #expect(reason(#"{"exp":2000,"aud":"voice","iss":"idp"}"#, voice) == nil)
        #expect(reason(#"{"exp":2000,"aud":["mail","voice"],"iss":"idp"}"#, voice) == nil)
        for claims in [
            #"{"exp":2000,"iss":"idp"}"#, #"{"exp":2000,"aud":"mail","iss":"idp"}"#,
            #"{"exp":2000,"aud":"voice"}"#, #"{"exp":2000,"aud":"voice","iss":"idp2"}"#,
            #"{"exp":2000,"aud":"voice2","iss":"idp"}"#,
        ] {
            #expect(reason(claims, voice) == .wrongClaims, "\(claims)")
        }
    }

    @Test func aSubjectIsOnePrincipalWhateverTheToken() throws {
        let policy = try policy()
        func principal(_ claims: String) throws -> SHA256Digest? {
            try policy.caller(of: TestToken.make(claims), at: 0).principal
        }
        let ann = try principal(#"{"exp":1,"sub":"ann"}"#)
        #expect(try principal(#"{"exp":2,"sub":"ann"}"#) == ann)
        #expect(try principal(#"{"exp":1,"sub":"bob"}"#) != ann)
        #expect(try principal(#"{"exp":1,"sub":"ann","iss":"idp"}"#) != ann)
        #expect(try principal(#"{"exp":1}"#) != principal(#"{"exp":2}"#))
    }

    @Test func rulesAreReadFromTheSettings() throws {
        var settings = CredentialSettings()
        #expect(try CredentialRules(settings, secrets: []).tokens == nil)
        settings.jwtSecret = "too short"
        #expect(throws: OptionError.self) { try CredentialRules(settings, secrets: []) }
        settings.jwtSecret = TestToken.secret
        settings.jwtAudience = "voice"
        #expect(try CredentialRules(settings, secrets: []).tokens?.audience == "voice")
        settings.jwtKeysFile = "no/such/file"
        #expect(
            throws: OptionError(
                "jwt-keys-file", "cannot read no/such/file: No such file or directory")
        ) { try CredentialRules(settings, secrets: []) }
        settings.jwtKeysFile = nil
        settings.jwtSecret = nil
        #expect(settings.objection?.contains("jwt-audience") == true)
    }

    // MARK: Client secrets

    private func issue(
        _ secrets: ClientSecrets, _ number: Int, to owner: UInt32 = 1, bytes: Int = 0,
        seconds: Int = 60, at now: Instant
    ) throws(ClientSecretsFull) -> String {
        let random = (0..<ClientSecrets.randomBytes).map { UInt8(truncatingIfNeeded: number >> $0) }
        let entry = ClientSecrets.Entry(
            key: nil, caller: .anonymous, end: now + .seconds(seconds),
            owner: .address(NetworkAddress(v4: owner)), bodyBytes: bytes)
        return try secrets.issue(random, entry, at: now)
    }

    /// Issues secrets until the owner is refused; returns how many there were.
    private func fill(
        _ secrets: ClientSecrets, from first: Int, to owner: UInt32, bytes: Int = 0, at now: Instant
    ) -> Int {
        (first...).prefix { (try? issue(secrets, $0, to: owner, bytes: bytes, at: now)) != nil }
            .count
    }

    @Test func aSecretOpensUntilItsEndAndNotAfter() throws {
        let secrets = ClientSecrets(maxEntries: 10)
        let text = try issue(secrets, 1, at: .milliseconds(0))
        #expect(text.hasPrefix("ek_") && text.utf8.count == 46)
        let digest = SHA256Digest(of: text)
        #expect(secrets.entry(of: digest, at: .milliseconds(59_999)) != nil)
        #expect(secrets.entry(of: digest, at: .milliseconds(60_000)) == nil)
        #expect(secrets.entry(of: SHA256Digest(of: text + "x"), at: .milliseconds(0)) == nil)
    }

    @Test func anOwnerHasAsManyAsAreFree() {
        let secrets = ClientSecrets(maxEntries: 1_000)
        #expect(fill(secrets, from: 0, to: 1, at: .milliseconds(0)) == 500)
        #expect(fill(secrets, from: 1_000, to: 2, at: .milliseconds(1)) == 250)
        #expect(fill(secrets, from: 2_000, to: 1, at: .milliseconds(2)) == 0)
        // Entries that have expired are free, of any owner.
        #expect(fill(secrets, from: 3_000, to: 2, at: .milliseconds(60_000)) == 250)
        #expect(fill(secrets, from: 4_000, to: 1, at: .milliseconds(60_000)) == 250)
    }

    /// Each owner that takes all it can leaves half of the free entries.
    @Test func ownersThatTakeAllTheyCanLeaveRoomForOthers() {
        let secrets = ClientSecrets(maxEntries: 1_000)
        let counts = (1...8).map {
            fill(secrets, from: $0 << 16, to: UInt32($0), at: .milliseconds(0))
        }
        #expect(counts == [500, 250, 125, 63, 31, 16, 8, 4])
        // Once these have expired, owners that ask in turn have the same.
        var issued = [Int](repeating: 0, count: 8)
        for number in 0..<2_000 {
            let secret = try? issue(
                secrets, (1 << 20) + number, to: UInt32(number % 8), at: .milliseconds(60_000))
            if secret != nil { issued[number % 8] += 1 }
        }
        #expect(issued == [112] + [Int](repeating: 111, count: 7))
    }

    @Test func theAnswerSaysWhenTheNextOneExpires() throws {
        let secrets = ClientSecrets(maxEntries: 4)
        _ = try issue(secrets, 1, seconds: 20, at: .milliseconds(0))
        _ = try issue(secrets, 2, seconds: 7_200, at: .milliseconds(0))
        #expect(throws: ClientSecretsFull(retryAfterSeconds: 20)) {
            try issue(secrets, 3, at: .milliseconds(0))
        }
        #expect(throws: ClientSecretsFull(retryAfterSeconds: 1)) {
            try issue(secrets, 4, at: .milliseconds(19_999))
        }
        _ = try issue(secrets, 5, seconds: 7_200, at: .milliseconds(20_000))
        #expect(throws: ClientSecretsFull(retryAfterSeconds: ClientSecrets.maxRetrySeconds)) {
            try issue(secrets, 6, at: .milliseconds(20_000))
        }
    }

    @Test func boundSessionsShareBytesInTheSameWay() throws {
        let secrets = ClientSecrets(maxEntries: 10_000)
        let each = (2 << 20) + ClientSecrets.entryBytes
        let count = fill(secrets, from: 0, to: 1, bytes: 1 << 20, at: .milliseconds(0))
        #expect(count == (ClientSecrets.maxBytes / each + 1) / 2)
        #expect(fill(secrets, from: 1_000, to: 2, bytes: 1 << 20, at: .milliseconds(0)) > 0)
    }

    @Test func anIPv6SubscriberIsOneOwner() throws {
        let one = try #require(NetworkAddress("2001:db8::1"))
        let other = try #require(NetworkAddress("2001:db8::ffff"))
        let next = try #require(NetworkAddress("2001:db8:0:1::1"))
        #expect(SecretOwner(.anonymous, at: one) == SecretOwner(.anonymous, at: other))
        #expect(SecretOwner(.anonymous, at: one) != SecretOwner(.anonymous, at: next))
    }

    // MARK: Places and attempts

    @Test func placesAreTakenAndGivenBack() {
        let places = SessionPlaces()
        let (ann, bob) = (SHA256Digest(of: "ann"), SHA256Digest(of: "bob"))
        #expect(places.take(ann, atMost: 2) && places.take(ann, atMost: 2))
        #expect(!places.take(ann, atMost: 2))
        #expect(places.take(bob, atMost: 1))
        places.release(ann)
        #expect(places.take(ann, atMost: 2))
        for principal in [ann, ann, bob] { places.release(principal) }
        #expect(places.count == 0)
    }

    @Test func failedAttemptsHaveAMinutesWorth() throws {
        let limits = AddressLimits(failuresPerMinute: 60)
        let one = NetworkAddress(v4: 1)
        for _ in 0..<60 {
            #expect(!limits.isExhausted(one, at: .milliseconds(0)))
            limits.spend(one, at: .milliseconds(0))
        }
        #expect(limits.isExhausted(one, at: .milliseconds(999)))
        #expect(!limits.isExhausted(one, at: .milliseconds(1_000)))
        #expect(!limits.isExhausted(NetworkAddress(v4: 2), at: .milliseconds(0)))
        limits.spend(NetworkAddress(v4: 2), at: .milliseconds(120_000))
        limits.spend(NetworkAddress(v4: 3), at: .milliseconds(240_000))
        #expect(limits.trackedAddresses <= 2)
    }
}
