#!/usr/bin/env python3
"""Makes flights.ndjson from the npm package vega-datasets 3.2.1.

    npm pack vega-datasets@3.2.1
    python3 examples/data/make.py vega-datasets-3.2.1.tgz > examples/data/flights.ndjson
"""

import hashlib
import json
import sys
import tarfile

MEMBER = "package/data/flights-5k.json"
SHA256 = "15041d59d44b6d31924d1accfb2cd400bca146dd785822dd812809614629953a"
RECORDS = 3000


def read_source(archive):
    """The rows of the source file, once its bytes are known to be the expected ones."""
    with tarfile.open(archive) as package:
        content = package.extractfile(MEMBER).read()
    found = hashlib.sha256(content).hexdigest()
    if found != SHA256:
        sys.exit(f"{MEMBER} has SHA-256 {found}, expected {SHA256}")
    return json.loads(content)


def event(number, row):
    """One line: the row's own values, the date in ISO 8601 form, and a running number."""
    day, time = row["date"].split(" ")
    return {
        "flight": f"{number:04}",
        "origin": row["origin"],
        "destination": row["destination"],
        "date": f"{day.replace('/', '-')}T{time}:00",
        "delay": row["delay"],
        "distance": row["distance"],
    }


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    rows = sorted(read_source(sys.argv[1]), key=lambda row: row["date"])
    for number, row in enumerate(rows[:RECORDS], start=1):
        print(json.dumps(event(number, row), separators=(",", ":")))


if __name__ == "__main__":
    main()
