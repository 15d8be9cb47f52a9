"""A calendar as an MCP server: free times of the next days, and appointments, which it keeps in memory."""

import datetime

from mcp.server.mcpserver import MCPServer

server = MCPServer("calendar")
booked: dict[str, str] = {}


def times_of(day: datetime.date) -> list[str]:
    """The times at which appointments begin: from 8 to 12 and from 14 to 18, each half hour."""
    if day.weekday() > 4:
        return []
    hours = [*range(8, 12), *range(14, 18)]
    return [f"{day.isoformat()} {hour:02}:{minute:02}" for hour in hours for minute in (0, 30)]


@server.tool()
def find_free_times(day: str = "") -> list[str]:
    """Free times, at most six: of a day (YYYY-MM-DD), or of the next days."""
    today = datetime.date.today()
    days = [datetime.date.fromisoformat(day)] if day else [
        today + datetime.timedelta(days=ahead) for ahead in range(1, 8)]
    return [time for day in days for time in times_of(day) if time not in booked][:6]


@server.tool()
def book_appointment(time: str, name: str, reason: str) -> str:
    """Books a free time (YYYY-MM-DD HH:MM) for a name."""
    if time not in times_of(datetime.date.fromisoformat(time[:10])):
        return "There are no appointments at that time."
    if time in booked:
        return "That time is taken."
    booked[time] = f"{name}: {reason}"
    return f"Booked: {time}, {name}."


if __name__ == "__main__":
    server.run()
