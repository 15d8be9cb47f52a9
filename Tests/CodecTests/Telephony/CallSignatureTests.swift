// Signatures of carriers, against values that another implementation has made.

import Testing

@testable import Codec

@Suite struct CallSignatureTests {
    private func fields(_ fields: (String, String)...) -> HTTPFields {
        var head = HTTPFields()
        for (name, value) in fields { head.append(name, value) }
        return head
    }

    private let twilio = "/9CePW9ateVCsfEI0ovxcY95674="
    private let plivo = "NAJIhae+1JZk91bzthMJ1vnip6o4IoKnvklYJ75cfQw="

    @Test func twilioSignsTheURL() {
        let url = "wss://voice.example.com/twilio"
        let signed = fields(("X-Twilio-Signature", twilio))
        #expect(CallSigning.twilio.isSigned(signed, [url], token: "12345"))
        #expect(CallSigning.twilio.isSigned(signed, ["https://other", url], token: "12345"))
        #expect(!CallSigning.twilio.isSigned(signed, [url + "/"], token: "12345"))
        #expect(!CallSigning.twilio.isSigned(signed, [url], token: "12346"))
        #expect(!CallSigning.twilio.isSigned(fields(), [url], token: "12345"))
        #expect(
            !CallSigning.twilio.isSigned(
                fields(("X-Twilio-Signature", "")), [url], token: "12345"))
        // Of two fields none is believed.
        #expect(
            !CallSigning.twilio.isSigned(
                fields(("X-Twilio-Signature", twilio), ("X-Twilio-Signature", twilio)), [url],
                token: "12345"))
    }

    /// The value is that of Python's `hmac`.
    @Test func twilioSignsWithASharedKey() {
        let url = "wss://voice.example.com/twilio"
        func signed(_ settings: String?) -> Bool {
            var head = fields(
                ("X-Twilio-Signature", "J8wXTi7iwbMt+WFaF5o+m8vadxri7hpfs/KIfvNXW8Q="))
            if let settings { head.append(CallSigning.settingsField, settings) }
            return CallSigning.twilio.isSigned(head, [url], token: "12345")
        }
        #expect(signed("key=SK1,algorithm=HMAC_SHA256"))
        #expect(!signed("key=SK1,algorithm=HMAC_SHA1"))
        #expect(!signed(nil))
    }

    @Test func plivoSignsTheURLAndANonce() {
        let url = "https://voice.example.com/plivo"
        func signed(_ signature: String, nonce: String = "777") -> Bool {
            CallSigning.plivo.isSigned(
                fields(
                    ("X-Plivo-Signature-V3", signature), ("X-Plivo-Signature-V3-Nonce", nonce)),
                [url], token: "12345")
        }
        #expect(signed(plivo))
        #expect(signed("other,\(plivo)"))
        #expect(!signed(plivo, nonce: "778"))
        #expect(!signed("other"))
        // An empty nonce would make one signature good for every call.
        let unsalted = CallSigning.plivo.signature(of: url, nonce: "", token: "12345")
        #expect(!signed(unsalted, nonce: ""))
        #expect(
            !CallSigning.plivo.isSigned(
                fields(("X-Plivo-Signature-V3", plivo)), [url], token: "12345"))
    }
}
