// Signatures of our own: every token is verified by the same code that verifies foreign ones, with
// nothing but the published half of the key.

import Testing

@testable import Codec

@Suite struct SigningKeyTests {
    /// Made with `openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256`.
    private static let pem = """
        -----BEGIN PRIVATE KEY-----
        MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgdweh/a6eLK82FkvB
        32cunG8M11QSF4zAzxcYRpbucSyhRANCAARtiwgYStiout3HFCjwmxbCPIjtfaqz
        tyaox8XT7ceFz/j9XWqC/407Ka8ItLyWF20QCrSztmou+B2/uqVvvzxU
        -----END PRIVATE KEY-----

        """

    private func published(_ keys: [SigningKey]) throws -> JSONWebKeySet {
        var json = JSONWriter(ByteWriter(capacity: 512))
        json.object { json in
            json.array("keys") { json in
                for key in keys { key.writePublicKey(to: &json) }
            }
        }
        return try JSONWebKeySet(json: json.finish().copiedBytes)
    }

    private let claims = Array(#"{"iss":"parley","exp":1300819380}"#.utf8)

    /// Each signature is another: random numbers with and without leading zeros are all encoded.
    @Test func thePublishedHalfVerifiesEveryToken() throws {
        let key = try #require(SigningKey())
        let set = try published([key])
        for _ in 0..<600 {
            let token = try JSONWebToken(try #require(key.token(claims: claims)))
            #expect(token.keyID == key.id && token.algorithm == .es256)
            #expect(try token.claims(signedBy: set).issuer == "parley")
        }
    }

    @Test func anotherKeyDoesNot() throws {
        let (key, other) = (try #require(SigningKey()), try #require(SigningKey()))
        let token = try JSONWebToken(try #require(key.token(claims: claims)))
        #expect(throws: JSONWebTokenError.unknownKey) {
            try token.claims(signedBy: published([other]))
        }
        #expect(key.id != other.id)
    }

    @Test func aFileMayHoldSeveralKeysAndOtherThings() throws {
        let two = try SigningKey.keys(pem: Array((Self.pem + "words\n" + Self.pem).utf8))
        #expect(two.count == 2)
        let key = try #require(two.first)
        #expect(key.id == "D9iQ7uY5J1T1gMuBvVYp-f7YO44eZ4VZaLcakySOBRc", "RFC 7638")
        let token = try JSONWebToken(try #require(key.token(claims: claims)))
        #expect(try token.claims(signedBy: published(two)).issuer == "parley")
    }

    @Test(arguments: [
        "", "words", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
    ])
    func aFileWithoutAKeyIsRefused(_ text: String) {
        #expect(throws: SigningKeyError.self) { try SigningKey.keys(pem: Array(text.utf8)) }
    }

    @Test("A damaged key hides those behind it (certbot#5721)")
    func aDamagedKeyIsRefusedByItsPlace() {
        let damaged = Self.pem.replacing("MIGH", with: "!!!!")
        let cut = String(Self.pem.dropLast(40))
        for (text, place) in [
            (Self.pem + damaged + Self.pem, "damaged or encrypted"), (Self.pem + cut, "line 9"),
            (Self.pem.dropLast(2) + Self.pem, "line 5"),
        ] {
            let error = #expect(throws: SigningKeyError.self) {
                try SigningKey.keys(pem: Array(text.utf8))
            }
            #expect(error?.description.contains(place) == true, "\(error?.description ?? "")")
        }
    }
}
