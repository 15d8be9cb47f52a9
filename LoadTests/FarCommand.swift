// `parley-load far`: as many sessions as a machine can hold, divided among several server
// processes, because each process has a limit of descriptors.

import ArgumentParser
import CLinux

/// Very many sessions on one machine.
struct FarCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "far",
        abstract: "Hold 100,000 sessions on this machine, over six server processes.",
        discussion: """
            First the kernel's limits are listed beside what the run needs; where one is \
            too small, nothing is started. Then the servers come up on ports of their own, all \
            sessions are opened at 2,000 a second from source addresses 127.0.1.1…200, one in a \
            thousand takes turns against the scripted model, and memory (of the servers, and of \
            the kernel) is measured before, with them, and after.

            100,000 sessions take about two minutes, and 1.5 GiB for the kernel's sockets and \
            the generator's processes.

            EXAMPLES
              parley-load far --output .build/load/far
              parley-load far --sessions 20000 --processes 2
            """)

    @Option(help: "Sessions in all, 1000…1000000.")
    var sessions = 100_000

    @Option(help: "Server processes, 1…64.")
    var processes = 6

    @Option(help: "Connections per second, 10…100000.")
    var rate = 2_000.0

    @Option(help: "Seconds of the measured part, 1…3600.")
    var seconds = 20.0

    @OptionGroup var load: LoadOptions

    func validate() throws {
        guard (1_000...1_000_000).contains(sessions), (1...64).contains(processes),
            (10...100_000).contains(rate), (1...3_600).contains(seconds), load.target == nil
        else {
            throw ValidationError(
                "--sessions is 1000…1000000, --processes 1…64, --rate 10…100000, --seconds "
                    + "1…3600, and the servers are its own")
        }
    }

    func run() throws {
        try reportingFailures { () throws(LoadFailure) in
            let workers = load.workers ?? (sessions + 4_999) / 5_000
            let limits = SystemLimit.all(
                sessions: sessions, servers: processes, workers: workers)
            let table = SystemLimit.table(limits)
            print(table + "\n")
            if let lacking = limits.first(where: { !$0.suffices }) {
                throw LoadFailure("\(lacking.name) is too small; see the table")
            }
            var scenario = Scenario(.chat)
            scenario.name = "far"
            scenario.sessions = sessions
            scenario.chatting = max(1, sessions / 1_000)
            scenario.connectRate = rate
            scenario.seconds = seconds
            scenario.settleSeconds = 3
            (scenario.tokens, scenario.tokenRate, scenario.turnEvery) = (100, 50, 4)
            let kernelBefore = SystemLimit.kernelBytes
            var peak = 0
            var options = load
            // There are more processes than cores, so none gets a core of its own.
            options.pinned = false
            let result = try options.run(scenario, processes: processes) {
                peak = max(peak, SystemLimit.kernelBytes ?? 0)
            }
            let kernel = Self.kernel(
                before: kernelBefore, peak: peak, sessions: result.openSessions)
            let heading = table + "\n\n" + kernel
            print(kernel + "\n")
            print(MarkdownReport(results: [result]).text)
            if let output = load.output {
                try ReportFolder(output).write([result], heading: heading)
            }
            try result.checkNoSessionWasLost()
        }
    }

    private static func kernel(before: Int?, peak: Int, sessions: Int) -> String {
        guard let before, peak > before, sessions > 0 else {
            return "The kernel's memory could not be measured."
        }
        let each = (peak - before) / sessions
        return
            "The kernel's own objects grew by \(grouped((peak - before) / 1_000_000)) MB at most, "
            + "\(grouped(each)) bytes for both ends of a session."
    }
}
