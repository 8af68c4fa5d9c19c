#!/usr/bin/env python3
"""Checks the engine's answers against DuckDB's on the same Parquet files.

usage: check.py DATA ANSWERS      (pip install duckdb)

DATA is the directory of customer.parquet to supplier.parquet, ANSWERS what `bench-tpch answers` wrote.
All 22 queries: number of rows, their order, and every value; numbers to a relative 1e-6 or an absolute
1e-6, since the engine cuts averages of decimals after six digits where DuckDB gives floating point.
"""

import datetime
import pathlib
import sys

import duckdb

TABLES = "customer lineitem nation orders part partsupp region supplier".split()


def same(ours, theirs):
    if isinstance(theirs, (str, datetime.date)):
        return ours == str(theirs)
    ours, theirs = float(ours), float(theirs)
    return abs(ours - theirs) <= max(1e-6, 1e-6 * abs(theirs))


def check(name, ours, theirs):
    if len(ours) != len(theirs):
        return f"{name}: {len(ours)} rows, DuckDB has {len(theirs)}"
    if not ours:
        return f"{name}: no rows"
    for number, (mine, row) in enumerate(zip(ours, theirs), 1):
        cells = mine.split("|")
        if len(cells) != len(row) or not all(map(same, cells, row)):
            return f"{name}, row {number}: {mine}, DuckDB has {row}"
    return None


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    data, answers = map(pathlib.Path, sys.argv[1:])
    queries = pathlib.Path(__file__).parent / "engine" / "queries"
    db = duckdb.connect()
    for table in TABLES:
        file = str(data / f"{table}.parquet").replace("'", "''")
        db.execute(f"create view {table} as select * from read_parquet('{file}')")
    scale = db.execute("select count(*) from supplier").fetchone()[0] / 10_000
    failures = 0
    for number in range(1, 23):
        text = (queries / f"q{number}.sql").read_text()
        theirs = db.execute(text.replace(":fraction", f"{0.0001 / scale:.10f}")).fetchall()
        ours = (answers / f"q{number}.txt").read_text().splitlines()
        failure = check(f"Q{number}", ours, theirs)
        failures += failure is not None
        print(failure or f"Q{number}: {len(ours)} rows, equal")
    sys.exit(failures > 0)


if __name__ == "__main__":
    main()
