// Files that TLS cannot use, and the error for each; settings that do not fit together.

import COpenSSL
import Session
import Simulation
import Testing

@testable import Server

@Suite struct TLSContextTests {
    private let authority = TestAuthority()
    private let certificate: TestCertificate

    init() { certificate = authority.issue() }

    private func problem(with material: TLSMaterial) -> String? {
        do throws(OptionError) {
            return try context(material).warnings.first
        } catch {
            return error.description
        }
    }

    private func context(_ material: TLSMaterial) throws(OptionError) -> TLSContext {
        let now = Instant(nanoseconds: 0)
        return try TLSContext(
            material, clients: .required, tickets: TLSTicketKeys(period: .seconds(1), at: now),
            at: now)
    }

    private func key(_ bytes: [UInt8]) -> ConfiguredFile {
        ConfiguredFile(option: "tls-key", path: "key.pem", bytes: bytes)
    }

    @Test func takesWhatFits() {
        let ocsp = authority.ocspResponse(about: certificate)
        var material = certificate.material(clientCA: authority, ocsp: ocsp)
        material.certificate = chain(certificate.certificate, authority.root.certificate)
        #expect(problem(with: material) == nil)
    }

    private func chain(_ pieces: [UInt8]...) -> ConfiguredFile {
        ConfiguredFile(option: "tls-cert", path: "cert.pem", bytes: Array(pieces.joined()))
    }

    @Test("A file that is damaged is half used (certbot#5721)")
    func aDamagedChainIsRefused() {
        let (leaf, root) = (certificate.certificate, authority.root.certificate)
        var broken = root
        broken.replaceSubrange(40..<43, with: Array("!!!".utf8))
        var material = certificate.material(clientCA: authority)
        for (file, words) in [
            (chain(leaf.dropLast() + root), "is damaged at line"),
            (chain(leaf, root.dropLast(root.count / 2)), "is damaged at line"),
            (chain(leaf, broken, root), "is damaged: certificate 2 cannot be read"),
            (chain(leaf, root, Array("-----BEGIN CERTIF".utf8)), "is damaged at line"),
        ] {
            material.certificate = file
            #expect(problem(with: material)?.hasPrefix("tls-cert: cert.pem \(words)") == true)
            material.certificate = chain(leaf, root)
            material.clientCA = ConfiguredFile(
                option: "tls-client-ca", path: "ca.pem", bytes: file.bytes)
            #expect(problem(with: material)?.hasPrefix("tls-client-ca: ca.pem \(words)") == true)
        }
    }

    @Test func aChainThatDoesNotLeadToItsIssuerIsWarnedOf() {
        let other = TestAuthority(name: "Test authority")
        var material = certificate.material()
        #expect(problem(with: material)?.contains("has no issuer of its last certificate") == true)
        // Another key of the same name.
        material.certificate = chain(certificate.certificate, other.root.certificate)
        #expect(
            problem(with: material)?.contains("certificate 2 is not the issuer of certificate 1")
                == true)
    }

    @Test func bytesBehindTheStapleAreRefused() {
        let ocsp = authority.ocspResponse(about: certificate)
        #expect(
            problem(with: certificate.material(ocsp: ocsp + [0]))?.hasPrefix(
                "tls-ocsp: ocsp.der is no OCSP response") == true)
    }

    @Test func saysWhatIsWrongWithTheKey() {
        var material = certificate.material()
        material.key = key(authority.issue().key)
        #expect(
            problem(with: material)
                == "tls-key: key.pem is not the key of the certificate in cert.pem")
        material.key = key(certificate.encryptedKey)
        #expect(
            problem(with: material)?.hasPrefix("tls-key: key.pem is encrypted; decrypt") == true)
        material.key = key(certificate.certificate)
        #expect(problem(with: material) == "tls-key: key.pem contains no private key in PEM")
    }

    @Test func saysWhatIsWrongWithTheCertificate() {
        var material = certificate.material()
        material.certificate = ConfiguredFile(option: "tls-cert", path: "cert.pem", bytes: [0, 1])
        #expect(
            problem(with: material)?.hasPrefix("tls-cert: cert.pem contains no certificate in PEM")
                == true)
        let expired = authority.issue { $0.validity = -7_200...(-3_600) }
        #expect(
            problem(with: expired.material())
                == "tls-cert: cert.pem has expired: clients will refuse it")
        let early = authority.issue { $0.validity = 3_600...7_200 }
        #expect(
            problem(with: early.material())?.hasPrefix("tls-cert: cert.pem is not valid yet")
                == true)
    }

    @Test func saysWhatIsWrongWithTheStaple() {
        let other = authority.issue()
        func problem(_ ocsp: [UInt8]) -> String? {
            var material = certificate.material(ocsp: ocsp)
            material.certificate = chain(certificate.certificate, authority.root.certificate)
            return self.problem(with: material)
        }
        #expect(problem([1, 2, 3])?.hasPrefix("tls-ocsp: ocsp.der is no OCSP response") == true)
        #expect(
            problem(authority.ocspResponse(about: other))?.hasPrefix(
                "tls-ocsp: ocsp.der is about another certificate") == true)
        #expect(
            problem(authority.ocspResponse(about: certificate, isGood: false))?.hasPrefix(
                "tls-ocsp: ocsp.der does not call the certificate good") == true)
        #expect(
            problem(authority.ocspResponse(about: certificate, lifetime: -60))
                == "tls-ocsp: ocsp.der has expired and is not stapled; fetch it anew")
    }

    @Test func saysWhichFileCannotBeRead() throws {
        var settings = TLSSettings()
        settings.certificate = "no/such/file"
        settings.key = "no/such/file"
        #expect(
            throws: OptionError("tls-cert", "cannot read no/such/file: No such file or directory")
        ) { try TLSMaterial(settings) }
    }

    @Test func wantsCertificateAndKeyTogether() {
        var configuration = ServerConfiguration()
        configuration.tls.key = "key.pem"
        #expect(configuration.objection?.hasPrefix("tls-key needs tls-cert") == true)
        configuration.tls.key = nil
        configuration.tls.clientCA = "ca.pem"
        #expect(configuration.objection?.hasPrefix("tls-client-ca needs") == true)
        configuration.tls.certificate = "cert.pem"
        #expect(configuration.objection?.hasPrefix("tls-cert needs tls-key") == true)
        configuration.tls.key = "key.pem"
        #expect(configuration.objection == nil)
    }
}
