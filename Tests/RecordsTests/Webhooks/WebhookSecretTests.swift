// Secrets and signatures of webhooks, by the example of Standard Webhooks 1.0.

import Testing

@testable import Records

@Suite struct WebhookSecretTests {
    /// The example of the specification.
    @Test func theExampleOfTheStandard() throws {
        let secret = try #require(WebhookSecret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"))
        let signature = secret.signature(
            id: "msg_p5jXN8AQM9LWM0D4loKWxJek", seconds: 1_614_265_330,
            body: #"{"test": 2432232314}"#)
        #expect(signature == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=")
    }

    @Test(arguments: [
        "", "whsec_", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaS",
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLa==", "whsec_short",
        "whsec_" + String(repeating: "A", count: 88),
    ])
    func otherTextsAreNoSecrets(_ text: String) {
        #expect(WebhookSecret(text) == nil)
    }
}
