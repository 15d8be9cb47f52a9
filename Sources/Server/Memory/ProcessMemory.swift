// The kernel's figures of the process's memory, and of the memory that it may take. They are read
// at each question; nothing here is kept.
//
// Source: proc(5) for statm, the kernel's cgroup-v2.rst for memory.max and cgroup-v1/memory.rst for
// memory.limit_in_bytes.

import CLinux

/// The kernel's account of the process.
package struct ProcessMemory: Equatable, Sendable {
    /// Resident bytes, or 0 where `/proc` is not mounted.
    package var resident = 0
    /// Those of them that are no file's.
    package var `private` = 0

    /// As of now; one short file is read, some microseconds.
    package static var current: ProcessMemory {
        // "total resident shared …", in pages.
        let fields = firstLine(of: "/proc/self/statm").split(separator: " ").map { Int($0) ?? 0 }
        guard fields.count > 2 else { return ProcessMemory() }
        let page = Int(sysconf(Int32(_SC_PAGESIZE)))
        return ProcessMemory(
            resident: fields[1] * page, private: max(0, fields[1] - fields[2]) * page)
    }

    /// Bytes that are allocated now. Freed pages that the allocator keeps, or cannot give back
    /// between used ones, are resident beside them. The call locks one arena of the allocator after
    /// another and goes through its free blocks.
    package static var allocated: Int {
        let heap = mallinfo2()
        return Int(heap.uordblks) + Int(heap.hblkhd)
    }

    /// Bytes that the process may take at most: the smallest limit of its control groups, or the
    /// machine's memory; nil where neither is known.
    package static var available: Int? {
        let pages = sysconf(Int32(_SC_PHYS_PAGES))
        let machine = pages > 0 ? Int(pages) * Int(sysconf(Int32(_SC_PAGESIZE))) : nil
        return [machine, groupLimit].compactMap(\.self).min()
    }

    /// The limit of the control group that the process is in, or of one around it.
    private static var groupLimit: Int? {
        let groups = content(of: "/proc/self/cgroup")
        return ControlGroup.memoryFiles(of: groups).compactMap { Int(firstLine(of: $0)) }.min()
    }

    private static func firstLine(of path: String) -> String {
        String(content(of: path).prefix { $0 != "\n" })
    }

    /// The first 4,096 bytes of a file, or nothing where it cannot be read.
    static func content(of path: String) -> String {
        let file = parley_open_readonly(path)
        guard file >= 0 else { return "" }
        defer { close(file) }
        return withUnsafeTemporaryAllocation(byteCount: 4_096, alignment: 1) { buffer in
            let count = read(file, buffer.baseAddress, buffer.count)
            guard count > 0 else { return "" }
            return String(decoding: buffer[..<count], as: UTF8.self)
        }
    }
}

/// Where the kernel keeps the limits of a process's control groups. Source: cgroups(7).
enum ControlGroup {
    /// The files that may hold a limit: of each group that the process is in, and of all around it
    /// up to the root. In a container the paths are often those of the host; its own limit then
    /// lies at the root, and the other files do not exist.
    /// - Parameter groups: the content of `/proc/self/cgroup`, a line "ID:CONTROLLERS:PATH" for
    ///   each hierarchy. Version 2 has ID 0 and no controllers; version 1 names `memory`.
    static func memoryFiles(of groups: String) -> [String] {
        files(of: groups, "memory.max", controller: "memory", "memory.limit_in_bytes")
    }

    /// The same for the quota of processors. Version 1 has the quota's period in another file
    /// beside it.
    static func processorFiles(of groups: String) -> [String] {
        files(of: groups, "cpu.max", controller: "cpu", "cpu.cfs_quota_us")
    }

    private static func files(
        of groups: String, _ name: String, controller: String, _ nameOfVersion1: String
    ) -> [String] {
        groups.split(separator: "\n").flatMap { line -> [String] in
            let fields = line.split(separator: ":", maxSplits: 2, omittingEmptySubsequences: false)
            guard fields.count == 3 else { return [] }
            if fields[0] == "0", fields[1].isEmpty {
                return files(name, from: fields[2], under: "/sys/fs/cgroup")
            }
            guard fields[1].split(separator: ",").contains(where: { $0 == controller })
            else { return [] }
            return files(
                nameOfVersion1, from: fields[2], under: "/sys/fs/cgroup/\(controller)")
        }
    }

    private static func files(
        _ name: String, from path: Substring, under root: String
    ) -> [String] {
        var parts = path.split(separator: "/")
        var files = ["\(root)/\(name)"]
        while !parts.isEmpty {
            files.append("\(root)/\(parts.joined(separator: "/"))/\(name)")
            parts.removeLast()
        }
        return files
    }
}
