// A line plot as SVG: labelled axes with units, a grid at round numbers, a legend. Pure: values in,
// text out. It has a white background of its own, for pages of any colour.

/// A plot of lines over a common axis.
struct SVGPlot {
    /// A line, with or without marked points.
    struct Series {
        var name: String
        var points: [(x: Double, y: Double)]
        /// Whether each point is marked.
        var isMarked = false
    }

    var title: String
    /// The titles of the axes with their units, as "memory, MB".
    var xLabel: String
    var yLabel: String
    var series: [Series]

    private static let width = 760.0, height = 420.0
    private static let left = 86.0, right = 24.0, top = 52.0, bottom = 86.0
    /// Colours that colour-blind readers can distinguish (Okabe and Ito).
    private static let colours = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"]

    /// The plot as SVG.
    var text: String {
        let all = series.flatMap(\.points)
        let xAxis = Axis(covering: all.map(\.x), fromZero: false)
        let yAxis = Axis(covering: all.map(\.y), fromZero: true)
        var lines = [
            """
            <svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 760 420" width="760" \
            height="420" font-family="Helvetica, Arial, sans-serif" font-size="13">
            """,
            #"<rect width="760" height="420" fill="white"/>"#,
            """
            <text x="380" y="26" text-anchor="middle" font-size="16" font-weight="bold">\
            \(Self.escaped(title))</text>
            """,
        ]
        lines += grid(xAxis, yAxis)
        for (index, line) in series.enumerated() {
            lines += drawn(line, Self.colours[index % Self.colours.count], xAxis, yAxis)
        }
        lines += labels() + legend()
        lines.append("</svg>")
        return lines.joined(separator: "\n") + "\n"
    }

    private func x(_ value: Double, _ axis: Axis) -> Double {
        Self.left + axis.share(of: value) * (Self.width - Self.left - Self.right)
    }

    private func y(_ value: Double, _ axis: Axis) -> Double {
        Self.height - Self.bottom - axis.share(of: value) * (Self.height - Self.top - Self.bottom)
    }

    private func grid(_ xAxis: Axis, _ yAxis: Axis) -> [String] {
        let (right, base) = (Self.width - Self.right, Self.height - Self.bottom)
        var lines: [String] = []
        for tick in yAxis.ticks {
            let place = Self.digits(y(tick, yAxis))
            lines.append(
                """
                <line x1="86" y1="\(place)" x2="\(Self.digits(right))" y2="\(place)" \
                stroke="#ddd"/>
                <text x="78" y="\(place)" dy="4" text-anchor="end">\(yAxis.label(tick))</text>
                """)
        }
        for tick in xAxis.ticks {
            let place = Self.digits(x(tick, xAxis))
            lines.append(
                """
                <line x1="\(place)" y1="52" x2="\(place)" y2="\(Self.digits(base))" stroke="#eee"/>
                <text x="\(place)" y="\(Self.digits(base + 18))" text-anchor="middle">\
                \(xAxis.label(tick))</text>
                """)
        }
        lines.append(
            """
            <path d="M86 52V\(Self.digits(base))H\(Self.digits(right))" fill="none" stroke="#333"/>
            """)
        return lines
    }

    private func drawn(
        _ line: Series, _ colour: String, _ xAxis: Axis, _ yAxis: Axis
    ) -> [String] {
        let places = line.points.map {
            (Self.digits(x($0.x, xAxis)), Self.digits(y($0.y, yAxis)))
        }
        guard !places.isEmpty else { return [] }
        let path = places.map { "\($0.0),\($0.1)" }.joined(separator: " ")
        var lines = [
            """
            <polyline points="\(path)" fill="none" stroke="\(colour)" stroke-width="2" \
            stroke-linejoin="round"/>
            """
        ]
        if line.isMarked || places.count == 1 {
            lines += places.map {
                #"<circle cx="\#($0.0)" cy="\#($0.1)" r="3.5" fill="\#(colour)"/>"#
            }
        }
        return lines
    }

    private func labels() -> [String] {
        let middle = Self.digits((Self.top + Self.height - Self.bottom) / 2)
        return [
            """
            <text x="411" y="\(Self.digits(Self.height - Self.bottom + 42))" \
            text-anchor="middle">\(Self.escaped(xLabel))</text>
            """,
            """
            <text x="20" y="\(middle)" text-anchor="middle" \
            transform="rotate(-90 20 \(middle))">\(Self.escaped(yLabel))</text>
            """,
        ]
    }

    /// The legend, in a row under the plot, where it covers no line.
    private func legend() -> [String] {
        guard series.count > 1 else { return [] }
        var place = Self.left
        return series.enumerated().map { index, line in
            let colour = Self.colours[index % Self.colours.count]
            let start = place
            // The approximate width of a letter at this size.
            place += 46 + Double(line.name.count) * 7.2
            return """
                <line x1="\(Self.digits(start))" y1="402" x2="\(Self.digits(start + 22))" y2="402" \
                stroke="\(colour)" stroke-width="3"/>
                <text x="\(Self.digits(start + 28))" y="406">\(Self.escaped(line.name))</text>
                """
        }
    }

    /// A coordinate, rounded to tenths.
    static func digits(_ value: Double) -> String { decimal(value) }

    static func escaped(_ text: String) -> String {
        text.replacing("&", with: "&amp;").replacing("<", with: "&lt;").replacing(">", with: "&gt;")
    }
}

/// An axis with round numbers.
struct Axis: Equatable {
    /// The first and the last tick.
    private(set) var range: ClosedRange<Double>
    private let step: Double

    /// Chooses ends and steps of 1, 2 or 5 times a power of ten.
    /// - Parameter fromZero: whether the axis begins at zero, so that lengths can be compared.
    init(covering values: [Double], fromZero: Bool) {
        var low = values.min() ?? 0
        var high = values.max() ?? 1
        if fromZero { low = min(0, low) }
        if high <= low { high = low + max(1, low.magnitude / 10) }
        var power = 1.0
        let rough = (high - low) / 5
        while power * 10 <= rough { power *= 10 }
        while power > rough { power /= 10 }
        step = [1, 2, 5, 10].map { $0 * power }.first { $0 >= rough } ?? power * 10
        range = (low / step).rounded(.down) * step...(high / step).rounded(.up) * step
    }

    /// The values of the grid lines.
    var ticks: [Double] {
        let count = Int(((range.upperBound - range.lowerBound) / step).rounded())
        return (0...max(1, count)).map { range.lowerBound + Double($0) * step }
    }

    /// The position of a value: 0 at the axis's beginning, 1 at its end.
    func share(of value: Double) -> Double {
        (value - range.lowerBound) / (range.upperBound - range.lowerBound)
    }

    /// A tick's number, with as many digits as the steps need.
    func label(_ tick: Double) -> String {
        var places = 0
        var unit = step
        while unit < 0.999, places < 6 {
            unit *= 10
            places += 1
        }
        return places == 0 ? grouped(Int(tick.rounded())) : decimal(tick, places)
    }
}
