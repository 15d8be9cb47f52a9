// The codes of RFC 4231.

import Codec
import Testing

@Suite struct HMACTests {
    @Test func theVectorsOfTheStandard() {
        let code = HMAC.sha256(
            of: Array("what do ya want for nothing?".utf8), secret: Array("Jefe".utf8))
        let expected = SHA256Digest(
            hexadecimal: "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843")
        #expect(code == expected?.bytes)
    }
}
