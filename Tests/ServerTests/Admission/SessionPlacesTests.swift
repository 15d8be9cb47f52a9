// The places of keys where servers share a store, without the store: which principals are asked
// about, and what a report changes.

import Codec
import Testing

@testable import Server

@Suite struct SessionPlacesTests {
    private let ann = SHA256Digest(of: "ann")

    private func makeShared() -> SessionPlaces {
        let places = SessionPlaces()
        places.share {}
        return places
    }

    /// Reports everything; the others have so many places of each principal.
    private func report(_ places: SessionPlaces, others: Int) -> Int {
        places.renew()
        var reported = 0
        while places.hasChanges {
            let report = places.takeReport()
            places.apply(report.map { _ in others }, of: report)
            reported += report.count
        }
        return reported
    }

    @Test func aFollowedKeyIsRefusedBeforeItsFirstSessionHere() {
        let places = makeShared()
        places.follow([ann])
        #expect(places.count == 0)
        let report = places.renewedReport()
        #expect(report.map(\.principal) == [ann] && report.map(\.count) == [0])
        places.apply([1], of: report)
        #expect(!places.take(ann, atMost: 1) && places.take(ann, atMost: 2))
    }

    @Test func aKeyIsFollowedAfterItsLastSession() {
        let places = makeShared()
        #expect(places.take(ann, atMost: 1))
        #expect(report(places, others: 0) == 1)
        places.release(ann)
        #expect(report(places, others: 1) == 1)
        #expect(!places.take(ann, atMost: 1))
        #expect(report(places, others: 0) == 1)
        #expect(places.take(ann, atMost: 1))
    }

    @Test func aRefusalAsksTheOthersAnew() {
        let places = makeShared()
        places.follow([ann])
        _ = report(places, others: 1)
        #expect(!places.hasChanges && !places.take(ann, atMost: 1) && places.hasChanges)
        let next = places.takeReport()
        #expect(next.map(\.count) == [0])
        places.apply([0], of: next)
        #expect(places.take(ann, atMost: 1))
        // What this server has itself is no reason to ask.
        _ = places.takeReport()
        #expect(!places.take(ann, atMost: 1) && !places.hasChanges)
    }

    @Test func aSessionThatComesFromAnotherServerIsCountedOnce() {
        let places = makeShared()
        places.follow([ann])
        _ = report(places, others: 1)
        #expect(places.take(ann, atMost: 1, isMoved: true))
        #expect(!places.take(ann, atMost: 1, isMoved: true))
        places.release(ann)
        _ = report(places, others: 2)
        #expect(!places.take(ann, atMost: 1, isMoved: true))
    }

    @Test func othersDoNotCountWhileTheyCannotBeAsked() {
        let places = makeShared()
        places.follow([ann])
        _ = report(places, others: 1)
        #expect(!places.take(ann, atMost: 1))
        places.forgetOthers()
        #expect(places.take(ann, atMost: 1) && !places.take(ann, atMost: 1))
    }

    @Test func theOldestIsFollowedNoMore() {
        let places = makeShared()
        let many = (0..<SessionPlaces.maxFollowed).map { SHA256Digest(of: "key \($0)") }
        places.follow([ann])
        places.follow(many)
        #expect(places.fitsOneReport)
        #expect(report(places, others: 1) == SessionPlaces.maxFollowed)
        #expect(places.take(ann, atMost: 1) && !places.take(many[0], atMost: 1))
        // What has a session here is asked about beside those that are followed.
        #expect(!places.fitsOneReport)
        #expect(report(places, others: 1) == SessionPlaces.maxFollowed + 1)
        #expect(!places.take(ann, atMost: 2))
    }

    @Test func nothingIsFollowedWithoutOtherServers() {
        let places = SessionPlaces()
        places.follow([ann])
        #expect(places.take(ann, atMost: 1))
        places.release(ann)
        places.renew()
        #expect(!places.hasChanges && places.takeReport().isEmpty)
    }

    @Test func keysWithALimitAreFollowedFromTheStart() throws {
        var keys = APIKeys()
        let text = "sk-free-0123456789abcdef\nsk-one-0123456789abcdef max-sessions=1\n"
        try keys.add(ConfiguredFile(option: "api-keys-file", path: "k", bytes: Array(text.utf8)))
        var settings = CredentialSettings()
        let authenticator = Authenticator(settings, rules: CredentialRules(keys: keys))
        authenticator.sharePlaces {}
        let limited = SHA256Digest(of: "sk-one-0123456789abcdef")
        #expect(authenticator.places.renewedReport().map(\.principal) == [limited])
        settings.maxSessionsPerKey = 2
        let all = Authenticator(settings, rules: CredentialRules())
        all.sharePlaces {}
        #expect(all.places.renewedReport().isEmpty)
        all.replace(CredentialRules(keys: keys))
        #expect(all.places.renewedReport().count == 2)
    }
}

extension SessionPlaces {
    fileprivate func renewedReport() -> PlaceReport {
        renew()
        return takeReport()
    }
}
