// Signed tokens: the examples of the RFCs, and invalid tokens that must be refused. ServerTests
// check whether a valid token has expired or is for another server.

import TestMaterial
import Testing

@testable import Codec

@Suite struct JSONWebTokenTests {
    /// RFC 7515, appendix A: the same claims signed three ways.
    private static let payload =
        "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290"
        + "Ijp0cnVlfQ"

    /// Example A.1.
    static let hs256 =
        "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9." + payload
        + ".dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
    static let hs256Key =
        #"{"kty":"oct","k":"AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS"#
        + #"4hcgUuTwjAzZr1Z9CAow"}"#

    /// Example A.2.
    static let rs256 =
        "eyJhbGciOiJSUzI1NiJ9." + payload
        + ".cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YK"
        + "t_O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBAr"
        + "LIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7n"
        + "oOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUP"
        + "QGe77Rw"
    static let rs256Modulus =
        "ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEz"
        + "P1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf6"
        + "3kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5Zw"
        + "Kh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRW"
        + "yuXpoQ"
    static let rs256Key = #"{"kty":"RSA","e":"AQAB","n":"\#(rs256Modulus)"}"#

    /// Example A.3.
    static let es256 =
        "eyJhbGciOiJFUzI1NiJ9." + payload
        + ".DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q"
    static let es256Key =
        #"{"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_F"#
        + #"EzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}"#

    static let examples = [(hs256, hs256Key), (rs256, rs256Key), (es256, es256Key)]

    static func keys(_ keys: String...) throws -> JSONWebKeySet {
        try JSONWebKeySet(json: Array("{\"keys\":[\(keys.joined(separator: ","))]}".utf8))
    }

    private func secretKeys() throws -> JSONWebKeySet {
        JSONWebKeySet([try #require(JSONWebKey(secret: Array(TestToken.secret.utf8)))])
    }

    @Test(arguments: examples)
    func theExamplesOfRFC7515AreVerified(token: String, key: String) throws {
        let claims = try JSONWebToken(token).claims(signedBy: Self.keys(key))
        #expect(claims.issuer == "joe")
        #expect(claims.expiry == 1_300_819_380)
        #expect(claims.subject == nil && claims.audiences.isEmpty)
    }

    /// Includes the last characters of each part, whose low bits belong to no byte.
    @Test(arguments: examples)
    func aTokenWithAnyOtherCharacterAnywhereIsRefused(token: String, key: String) throws {
        let keys = try Self.keys(key)
        let characters = Array(token.utf8)
        for position in characters.indices {
            for other in [UInt8(ascii: "A"), UInt8(ascii: "_"), UInt8(ascii: "x")]
            where other != characters[position] {
                var changed = characters
                changed[position] = other
                let text = String(decoding: changed, as: UTF8.self)
                #expect(throws: JSONWebTokenError.self, "character \(position)") {
                    try JSONWebToken(text).claims(signedBy: keys)
                }
            }
        }
        for cut in 0..<characters.count {
            let text = String(decoding: characters[..<cut], as: UTF8.self)
            #expect(throws: JSONWebTokenError.self) {
                try JSONWebToken(text).claims(signedBy: keys)
            }
        }
    }

    @Test(arguments: examples)
    func keysOfOtherTypesDoNotVerify(token: String, key: String) throws {
        for (_, other) in Self.examples where other != key {
            #expect(throws: JSONWebTokenError.unknownKey) {
                try JSONWebToken(token).claims(signedBy: Self.keys(other))
            }
        }
    }

    /// The attack on servers that let the token choose the algorithm (RFC 8725 §2.1): the public
    /// key as the secret of an HMAC.
    @Test func aPublicKeyIsNeverTheSecretOfAnHMAC() throws {
        let keys = try Self.keys(Self.rs256Key, Self.es256Key)
        for secret in [Self.rs256Key, Self.es256Key, Self.rs256Modulus] {
            let token = TestToken.make(#"{"exp":9999999999}"#, secret: secret)
            #expect(throws: JSONWebTokenError.unknownKey) {
                try JSONWebToken(token).claims(signedBy: keys)
            }
        }
    }

    @Test(arguments: [
        #"{"alg":"none"}"#, #"{"alg":"None"}"#, #"{"alg":"hs256"}"#, #"{"alg":"HS512"}"#,
        #"{"alg":"ES384"}"#, #"{"alg":"PS256"}"#, #"{"alg":""}"#,
    ])
    func otherAlgorithmsAreRefused(header: String) throws {
        let keys = try secretKeys()
        let token = TestToken.make(#"{"exp":9999999999}"#, header: header)
        #expect(throws: JSONWebTokenError.unsupportedAlgorithm) {
            try JSONWebToken(token).claims(signedBy: keys)
        }
        let unsigned = token.split(separator: ".").dropLast().joined(separator: ".") + "."
        #expect(throws: JSONWebTokenError.unsupportedAlgorithm) {
            try JSONWebToken(unsigned).claims(signedBy: keys)
        }
    }

    @Test(arguments: [
        #"{"alg":"HS256","crit":["exp"]}"#, #"{"alg":"HS256","crit":[]}"#,
        #"{"alg":"HS256","b64":false,"crit":["b64"]}"#,
    ])
    func anUnsupportedCriticalExtensionRefusesTheToken(header: String) throws {
        let keys = try secretKeys()
        #expect(throws: JSONWebTokenError.unsupportedExtension) {
            try JSONWebToken(TestToken.make("{}", header: header)).claims(signedBy: keys)
        }
    }

    @Test(arguments: [
        #"{"alg":"HS256","alg":"HS256"}"#, #"{"alg":1}"#, #"{}"#, #"[]"#, #""HS256""#, "",
        #"{"alg":"HS256","kid":7}"#, #"{"alg":"HS256""#,
    ])
    func aHeaderThatCanBeReadInTwoWaysIsRefused(header: String) throws {
        let keys = try secretKeys()
        #expect(throws: JSONWebTokenError.malformed) {
            try JSONWebToken(TestToken.make("{}", header: header)).claims(signedBy: keys)
        }
    }

    @Test(arguments: [
        #"{"exp":1,"exp":2}"#, #"{"exp":"1"}"#, #"{"exp":null}"#, #"{"nbf":true}"#, #"{"aud":1}"#,
        #"{"aud":["a",1]}"#, #"{"sub":{}}"#, "[]", #"{"parley":[]}"#, #"{"parley":{"models":"a"}}"#,
        #"{"parley":{"max_sessions":0}}"#, #"{"parley":{"max_sessions":1.5}}"#,
        #"{"parley":{"max_session_seconds":604801}}"#, #"{"parley":{"max_sesions":1}}"#,
        #"{"parley":{"max_sessions":1,"max_sessions":2}}"#, #"{"parley":{"models":[1]}}"#,
        #"{"exp":1e999}"#, #"{"exp":1e300}"#, #"{"exp":-1}"#, #"{"exp":-1e-300}"#,
        #"{"exp":253402300800}"#, #"{"exp":9223372036854775808}"#, #"{"exp":NaN}"#,
        #"{"exp":9223372036854775807}"#, #"{"exp":18446744073709551616}"#,
        #"{"nbf":1e300}"#, #"{"nbf":-1}"#, #"{"iat":1e300}"#, #"{"iat":-9223372036854775808}"#,
        #"{"parley":{"max_session_seconds":1e300}}"#, #"{"parley":{"max_sessions":-0.0}}"#,
        #"{"parley":{"max_session_seconds":9223372036854775808}}"#,
        #"{"parley":{"max_session_seconds":1e-300}}"#, #"{"parley":{"quotas":"turns=1/day"}}"#,
        #"{"parley":{"quotas":["turns=0/day"]}}"#, #"{"parley":{"quotas":["turns=1/day",1]}}"#,
        #"{"parley":{"quotas":["turns=1/day","turns=2/day"]}}"#,
    ])
    func claimsOfAWrongTypeRefuseTheToken(claims: String) throws {
        let keys = try secretKeys()
        #expect(throws: JSONWebTokenError.malformed) {
            try JSONWebToken(TestToken.make(claims)).claims(signedBy: keys)
        }
    }

    @Test(arguments: [
        ("0", 0), ("-0", 0), ("-0.0", 0), ("1e-300", 1e-300), ("253402300799", 253_402_300_799),
        ("2.53402300799e11", 253_402_300_799), ("1.5", 1.5),
    ])
    func timesUpToTheYear9999AreRead(text: String, seconds: Double) throws {
        let token = TestToken.make(#"{"exp":\#(text),"nbf":\#(text),"iat":\#(text)}"#)
        let claims = try JSONWebToken(token).claims(signedBy: secretKeys())
        #expect(claims.expiry == seconds)
        #expect(claims.notBefore == seconds && claims.issuedAt == seconds)
    }

    @Test func claimsAreRead() throws {
        let token = TestToken.make(
            #"{"iss":"i","sub":"s","aud":["a","b"],"exp":1.5,"nbf":1,"iat":0,"parley":"#
                + #"{"max_sessions":2,"max_session_seconds":60,"models":["m","n"],"#
                + #""quotas":["turns=20/minute"]}}"#)
        let claims = try JSONWebToken(token).claims(signedBy: secretKeys())
        #expect(claims.issuer == "i" && claims.subject == "s")
        #expect(claims.audiences == ["a", "b"])
        #expect(claims.expiry == 1.5 && claims.notBefore == 1 && claims.issuedAt == 0)
        #expect(
            claims.allowance
                == SessionAllowance(
                    maxSessions: 2, maxSessionSeconds: 60, models: ["m", "n"],
                    quotas: [Quota(.turns, 20, per: .minute)]))
        #expect(claims.allowance.allows(model: "n") && !claims.allowance.allows(model: "o"))
    }

    // MARK: Keys

    @Test func theKeyIsChosenByItsName() throws {
        let right = Base64URL.text(of: Array(TestToken.secret.utf8))
        let wrong = Base64URL.text(of: Array("x\(TestToken.secret)".utf8))
        let keys = try Self.keys(
            #"{"kty":"oct","kid":"new","k":"\#(right)"}"#,
            #"{"kty":"oct","kid":"old","k":"\#(wrong)"}"#)
        func token(_ kid: String) -> String {
            TestToken.make("{}", header: #"{"alg":"HS256","kid":"\#(kid)"}"#)
        }
        _ = try JSONWebToken(token("new")).claims(signedBy: keys)
        #expect(throws: JSONWebTokenError.invalidSignature) {
            try JSONWebToken(token("old")).claims(signedBy: keys)
        }
        #expect(throws: JSONWebTokenError.unknownKey) {
            try JSONWebToken(token("other")).claims(signedBy: keys)
        }
        // Without a `kid`, any key of the algorithm may have signed it.
        _ = try JSONWebToken(TestToken.make("{}")).claims(signedBy: keys)
    }

    @Test(arguments: [
        #"{"kty":"oct","use":"enc","k":"AA"}"#, #"{"kty":"oct","key_ops":["sign"],"k":"AA"}"#,
    ])
    func keysForOtherUsesAreIgnored(key: String) throws {
        let set = try Self.keys(key, Self.es256Key)
        #expect(set.keys.count == 1 && set.omissions.isEmpty)
        #expect(throws: JSONWebKeySetError.self) { try Self.keys(key) }
    }

    /// RFC 7517 §5.
    @Test(
        "One odd key disables the others (opa#3038, fastmcp#4515)",
        arguments: [
            #"{"kty":"OKP","crv":"Ed25519","x":"AA"}"#, #"{"kty":null}"#,
            #"{"kty":"EC","crv":"P-521","x":"AA","y":"AA"}"#,
            #"{"kty":"RSA","alg":"RSA-OAEP","n":"AA","e":"AQAB"}"#,
            #"{"kty":"oct","alg":"A256KW"}"#,
            #"{"kty":"oct","k":"c2hvcnQ"}"#, #"{"kty":"oct"}"#, #"{"kty":"RSA","e":"AQAB"}"#,
            #"{"kty":"RSA","n":"AQAB","e":"AQAB"}"#, #"{"k":"AA"}"#, "7",
            #"{"kty":"EC","crv":"P-256","x":"AA","y":"AA"}"#,
            // A point that is not on the curve.
            #"{"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","#
                + #""y":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU"}"#,
            // With padding, and in the other alphabet.
            #"{"kty":"oct","k":"MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="}"#,
        ])
    func anOddKeyIsLeftOutAndNamed(key: String) throws {
        let set = try Self.keys(key, Self.es256Key)
        #expect(set.keys.count == 1 && set.omissions.count == 1)
        #expect(set.omissions[0].hasPrefix("key 1: "))
        #expect(throws: JSONWebKeySetError.self) { try Self.keys(key) }
    }

    /// 1, also with a zero before it: everyone can sign. 65536, 2 and nothing are no exponents.
    @Test(arguments: ["AQ", "AAE", "AQAA", "Ag", ""])
    func aKeyWithoutAPublicExponentIsLeftOut(exponent: String) throws {
        let key = #"{"kty":"RSA","e":"\#(exponent)","n":"\#(Self.rs256Modulus)"}"#
        let set = try Self.keys(key, Self.es256Key)
        #expect(set.keys.count == 1 && set.omissions.count == 1)
    }

    @Test func nullIsNoMember() throws {
        let key = Self.es256Key.dropLast() + #","d":null,"use":null,"key_ops":null}"#
        #expect(try Self.keys(String(key)).keys.count == 1)
    }

    @Test func aPrivateKeyIsLeftOutByName() throws {
        for key in [Self.es256Key, Self.rs256Key] {
            let whole = key.dropLast() + #","d":"AAAA"}"#
            let set = try Self.keys(String(whole), Self.es256Key)
            #expect(set.keys.count == 1 && set.omissions[0].contains("private"))
            let error = #expect(throws: JSONWebKeySetError.self) { try Self.keys(String(whole)) }
            #expect(error?.description.contains("private") == true)
        }
    }

    @Test func keysWithoutANameThatAreNotTriedAreCounted() throws {
        let secrets = (10..<22).map { JSONWebKey(secret: Array("\(TestToken.secret)\($0)".utf8)) }
        var set = JSONWebKeySet(Array(secrets.compactMap { $0 }.prefix(JSONWebKeySet.maxTries)))
        #expect(set.untriedKeys.isEmpty)
        for key in secrets.compactMap({ $0 }) { set.append(key) }
        #expect(set.untriedKeys.map(\.count) == [20] && set.untriedKeys[0].algorithm == .hs256)
    }

    @Test(arguments: ["", "{}", "[]", #"{"keys":{}}"#, #"{"keys":[]}"#])
    func whatIsNoSetIsRefused(text: String) {
        #expect(throws: JSONWebKeySetError.self) { try JSONWebKeySet(json: Array(text.utf8)) }
    }

    @Test func aSetHasALimit() throws {
        let keys = Array(repeating: Self.es256Key, count: JSONWebKeySet.maxKeys + 1)
        let text = "{\"keys\":[\(keys.joined(separator: ","))]}"
        let set = try JSONWebKeySet(json: Array(text.utf8))
        #expect(set.keys.count == 64 && set.omissions == ["1 keys behind the first 64"])
    }
}
