"""urlcat against DuckDB and pyarrow, each making the same JSON lines on one core."""

from measure import Bar, Contestant

MAKE = """
import sys, pyarrow as pa, pyarrow.csv, pyarrow.parquet
rows = int(sys.argv[1])
table = pa.table({
    "URL": [f"https://cdn{i % 997}.example.com/pictures/{i:09}/{i * 7919 % 100003}.jpg?size=large" for i in range(rows)],
    "TEXT": [f"A photograph of thing number {i}, by the \\u00fc-river" for i in range(rows)],
    "WIDTH": pa.array([200 + i % 1800 for i in range(rows)], pa.int64()),
    "similarity": pa.array([(i % 1000) / 1000 for i in range(rows)], pa.float64()),
})
if sys.argv[2] == "parquet":
    pa.parquet.write_table(table, sys.argv[3], row_group_size=100_000)
elif sys.argv[2] == "csv":
    pa.csv.write_csv(table, sys.argv[3])
else:
    table.to_pandas().to_json(sys.argv[3], orient="records", lines=True, force_ascii=False)
"""

PYARROW = """
import json, sys, pyarrow.csv, pyarrow.json, pyarrow.parquet
path = sys.argv[1]
if path.endswith(".parquet"):
    batches = pyarrow.parquet.ParquetFile(path).iter_batches(columns=["URL", "TEXT", "WIDTH", "similarity"])
elif path.endswith(".csv"):
    batches = pyarrow.csv.open_csv(path)
else:
    batches = pyarrow.json.read_json(path).to_batches()
n = 0
for batch in batches:
    for row in batch.to_pylist():
        sys.stdout.write(json.dumps({"key": f"{n:09}", **row}) + "\\n")
        n += 1
"""

DUCKDB = """
import sys, duckdb
duckdb.execute("SET threads = 1")
select = f"SELECT URL, TEXT, WIDTH, similarity FROM '{sys.argv[1]}'"
duckdb.execute(f"COPY ({select}) TO '/dev/stdout' (FORMAT JSON)")
"""


def run(bench):
    python = bench.python("pyarrow", "duckdb", "pandas")
    if python is None:
        print("  (pyarrow and duckdb cannot be installed: left out)")
        return
    urlcat = bench.tool("urlcat")
    rows = 200_000 if bench.quick else 1_000_000
    for kind, rate in (("csv", 1e6), ("jsonl", 1e6), ("parquet", 2e6)):
        make = lambda path: bench.check([python, "-c", MAKE, str(rows), kind, path])
        table = bench.made(f"urls-{rows}.{kind}", make)
        found = bench.compare(
            f"{rows:,} rows of {kind} to JSON lines",
            [
                Contestant("pyarrow", [python, "-c", PYARROW, table]),
                Contestant("DuckDB, 1 thread", [python, "-c", DUCKDB, table]),
                Contestant("urlcat", [urlcat, table, "--url-col", "URL", "--caption-col", "TEXT"]),
                Contestant("cat (floor)", ["cat", table]),
            ],
            [Bar("urlcat", "pyarrow", 2.0), Bar("urlcat", "DuckDB, 1 thread", 1.0)],
            items=rows,
            unit="rows",
            headline="urlcat",
            size=table,
        )
        reached = rows / found["urlcat"]["cpu"]
        bench.expect(kind, f"urlcat: {reached / 1e6:.2f} M rows a CPU second, bar {rate / 1e6:.0f} M", reached >= rate)
