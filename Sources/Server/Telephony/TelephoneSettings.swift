// The carriers whose calls a server takes, and what their connections must prove.

import Codec
import Session

/// Settings of telephone calls.
public struct TelephoneSettings: Sendable {
    /// None: a carrier's route is there only where it is asked for.
    public var carriers: [TelephoneCarrier] = []
    /// None: the URL has the host of the request, which a proxy may have changed.
    public var url: String?
    /// None: no path has a secret.
    public var secret: String?
    /// None: Twilio's signatures are not checked.
    public var twilioAuthToken: String?
    /// None: Plivo's signatures are not checked.
    public var plivoAuthToken: String?

    static let settings: [Setting<Self>] = [
        .list(
            "telephone", \.carriers, of: "carriers",
            """
            Carriers whose calls are taken over a WebSocket, each at the path of its name: \
            twilio, signalwire, telnyx, exotel, plivo, vobiz, asterisk, conversation-relay. \
            docs/telephone.md says how to set them up.
            """),
        .optionalText(
            "telephone-url", \.url, "a URL that begins with wss:// or https://",
            """
            URL of this server as carriers dial it, without a path, as \
            wss://voice.example.com. Their signatures are made of it. Without it the Host of \
            the request counts, which a proxy may have changed.
            """
        ) { $0.hasPrefix("wss://") || $0.hasPrefix("https://") },
        .optionalText(
            "telephone-secret", \.secret, "a text", isSecret: true,
            """
            Secret that opens the path of a carrier with the secret behind it, as \
            /telnyx/SECRET, and nothing else: for carriers that neither sign nor send a key.
            """),
        .optionalText(
            "twilio-auth-token", \.twilioAuthToken, "a text", isSecret: true,
            """
            Auth token of the Twilio account, or the secret of the shared key with which a rule of \
            the account signs. Connections at /twilio and /conversation-relay must then have \
            Twilio's signature, or a credential of this server.
            """),
        .optionalText(
            "plivo-auth-token", \.plivoAuthToken, "a text", isSecret: true,
            """
            Auth token of the Plivo account. Connections at /plivo must then have Plivo's \
            signature, or a credential of this server.
            """),
    ]

    /// The secrets that can be guessed over the network, by their options.
    var secrets: [(option: String, text: String?)] {
        [
            ("telephone-secret", secret), ("twilio-auth-token", twilioAuthToken),
            ("plivo-auth-token", plivoAuthToken),
        ]
    }
}
