# Times json.loads or orjson.loads on a file: prints the median of COUNT parses in milliseconds,
# then the median of parses that also visit every value. python parse_json.py FILE COUNT json|orjson
import json
import statistics
import sys
import time
from pathlib import Path

import orjson

path, count, parser = sys.argv[1:]
loads = {"json": json.loads, "orjson": orjson.loads}[parser]
data = Path(path).read_bytes()


def visit(value: object) -> float:
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict):
        return sum(map(visit, value.values()))
    if isinstance(value, list):
        return sum(map(visit, value))
    return value or 0


def median(work) -> float:
    times = []
    for number in range(int(count) + 5):
        begin = time.perf_counter()
        work(loads(data))
        if number >= 5:
            times.append((time.perf_counter() - begin) * 1000)
    return statistics.median(times)


sums = []
parse = median(lambda value: None)
visited = median(lambda value: sums.append(visit(value)))
assert sums[0] > 0
print(f"{parse:.4f} {visited:.4f}")
