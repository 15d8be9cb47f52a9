// What OpenSSL and libcurl allocate, by who made them: an account per TLS connection and per
// session with requests under way, and one that all of the process shares. How blocks remember
// their account is CNativeMemory's; what a connection holds altogether is the ledger's.
//
// Invariant: an account is open exactly as long as its owner lives. What a library keeps beyond
// that (caches that it fills when first asked, a connection to be used again) moves to the shared
// account, so that the sum of all accounts is what both libraries have allocated, always.

import CCurl
import CLinux
import CNativeMemory
import Synchronization

/// An account of what C libraries allocate for one owner. Confined to the thread that opened it.
struct NativeAccount: ~Copyable {
    private let pointer: OpaquePointer

    /// Opens an account at zero.
    init() {
        guard let pointer = parley_account_open() else {
            preconditionFailure("no memory for an account")
        }
        self.pointer = pointer
    }

    deinit {
        let left = parley_account_close(pointer)
        if left != 0 { NativeMemory.noteOutlived(Int(left)) }
    }

    /// Bytes that are charged to it, with what malloc adds to them.
    var bytes: Int { Int(parley_account_bytes(pointer)) }

    /// The same with the account itself.
    var heldBytes: Int { bytes + Self.ownBytes }
    /// A malloc block of three words.
    private static let ownBytes = 32

    /// Makes it pay for what the libraries allocate on this thread until `end` is called.
    /// - Returns: who would have paid, for `end`.
    func begin() -> NativePayer { NativePayer(pointer: parley_owner_set(pointer)) }

    /// Makes it pay for what the libraries allocate within `body`.
    func charge<Result, Failure: Error>(
        _ body: () throws(Failure) -> Result
    ) throws(Failure) -> Result {
        let before = begin()
        defer { before.end() }
        return try body()
    }
}

/// Who paid before an account did; nobody, as a rule.
struct NativePayer {
    fileprivate let pointer: OpaquePointer?

    /// Nobody: the shared account pays.
    static var nobody: NativePayer { NativePayer(pointer: nil) }

    /// Makes the shared account pay from here on.
    /// - Returns: who would have paid, for `end`.
    static func suspend() -> NativePayer { NativePayer(pointer: parley_owner_set(nil)) }

    /// Puts him back.
    func end() { _ = parley_owner_set(pointer) }
}

/// What the whole process has of such memory.
package enum NativeMemory {
    /// Bytes that nobody in particular pays for: contexts, caches, connections to services that
    /// wait to be used again.
    package static var sharedBytes: Int { Int(parley_shared_account_bytes()) }

    /// Whether OpenSSL allocates through our functions. It does, unless the program had used it
    /// before its own code began.
    package static var countsOpenSSL: Bool { parley_openssl_is_hooked() == 1 }

    /// Bytes that have outlived their owners since the start, and moved to the shared account.
    package static var outlivedBytes: Int { outlived.load(ordering: .relaxed) }

    /// What malloc takes for an object.
    static func blockBytes(of object: AnyObject) -> Int {
        malloc_usable_size(Unmanaged.passUnretained(object).toOpaque()) + MemoryLayout<Int>.size
    }

    private static let outlived = Atomic<Int>(0)

    static func noteOutlived(_ bytes: Int) { outlived.add(bytes, ordering: .relaxed) }

    /// `curl_global_init` may run once per process; a static initialiser does just that.
    static let isCurlReady = parley_curl_global_init(Int(CURL_GLOBAL_DEFAULT)) == 0
}
