// Images in a conversation: shown to a model that sees, refused by name for one that does not.

import Codec
import Testing

@testable import Session

@Suite struct ImageTests {
    private static let url = "data:image/png;base64,AQID"

    private static func item(_ content: [ContentPart], id: String = "i") -> ConversationItem {
        ConversationItem(id: id, kind: .message(role: .user, content: content))
    }

    private static func create(_ item: ConversationItem) -> ClientEvent {
        .conversationItemCreate(item: item, previousItemID: nil)
    }

    private static func errors(_ script: ScriptedSession) -> [[String: Any]] {
        script.events.compactMap { $0["error"] as? [String: Any] }
    }

    @Test func aModelThatSeesIsGivenTheImageBesideTheText() {
        let script = ScriptedSession({ $0.outputModality = .text }, modelSeesImages: true)
        script.replies = [.text("A cat.")]
        let image = ContentPart.inputImage(url: Self.url, detail: .low)
        script.send(Self.create(Self.item([.inputText("What is this?"), image])), at: 0)
        script.send(.responseCreate(ResponseParameters()), at: 10)
        script.run(until: 1_000)
        #expect(script.violations == [])
        #expect(
            script.requests.map(\.messages) == [
                [.userParts([.text("What is this?"), .image(url: Self.url, detail: .low)])]
            ])
    }

    @Test func withoutSightAnImageIsRefusedByNameAndTheSessionLives() {
        let script = ScriptedSession({ $0.outputModality = .text })
        script.replies = [.text("Yes.")]
        let image = ContentPart.inputImage(url: Self.url, detail: .auto)
        script.send(Self.create(Self.item([.inputText("Look"), image])), at: 0, eventID: "e")
        var response = ResponseParameters()
        response.input = [Self.item([.inputText("a")]), Self.item([image])]
        script.send(.responseCreate(response), at: 10)
        script.send(Self.create(Self.item([.inputText("Hi")])), at: 20)
        script.send(.responseCreate(ResponseParameters()), at: 30)
        script.run(until: 1_000)
        let errors = Self.errors(script)
        #expect(
            errors.map { $0["code"] as? String }
                == ["unsupported_content_type", "unsupported_content_type"])
        #expect(
            errors.map { $0["param"] as? String }
                == ["item.content[1].type", "response.input[1].content[0].type"])
        #expect(errors.first?["event_id"] as? String == "e")
        #expect(script.requests.map(\.messages) == [[.user("Hi")]])
    }

    @Test func imagesCountWithTheTextAndHaveRoomOfTheirOwn() {
        var limits = SessionLimits()
        limits.maxConversationBytes = 100
        limits.maxConversationImageBytes = 200
        let script = ScriptedSession({ _ in }, limits: limits, modelSeesImages: true)
        let url = "https://a.test/" + String(repeating: "x", count: 235)
        let image = ContentPart.inputImage(url: url, detail: .auto)
        script.send(Self.create(Self.item([image], id: "one")), at: 0)
        script.run(until: 5)
        #expect(script.session.conversation.textBytes == 250)
        script.send(Self.create(Self.item([image], id: "two")), at: 10)
        script.run(until: 20)
        let deleted = script.events.filter { $0["type"] as? String == "conversation.item.deleted" }
        #expect(deleted.map { $0["item_id"] as? String } == ["one"])
        #expect(script.session.conversation.textBytes == 250)
    }

    @Test func whatWasHeardStandsBesideTheOtherParts() {
        let audio = HeardAudio(samples: [1, 2, 3])
        let image = ContentPart.inputImage(url: Self.url, detail: .auto)
        let spoken = ContentPart.inputAudio(bytes: [], transcript: nil)
        #expect(Self.item([spoken]).modelMessages(heard: audio) == [.userAudio(audio)])
        #expect(
            Self.item([.inputText("a"), spoken, image]).modelMessages(heard: audio) == [
                .userParts([.text("a"), .audio(audio), .image(url: Self.url, detail: .auto)])
            ])
        #expect(Self.item([spoken]).modelMessages == [])
    }
}
