#!/usr/bin/env python3
"""Runs scripts/img2dataset beside the real img2dataset on the same pictures and compares what they write.

    tests/peers/img2dataset.py [--count N] [--bin FOLDER] [--cache FOLDER] [--only WORD] [--quick]

Keys, statuses, messages, sizes, hashes, columns, types, members and counts must be the same, but for what DIFFER
lists with its reason. webdataset and datasets, the real ones, read the result, and tfrecord what is written for
TensorFlow, which img2dataset itself writes only where TensorFlow is. The packages go into a virtual environment in
the cache.
"""

import argparse
import io
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import venv

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PACKAGES = ["img2dataset==1.47.0", "opencv-python-headless", "pillow", "datasets", "tfrecord"]

# Kinds of picture that come out differently, the columns that do, and why.
SIDES = {"width", "height", "original_width", "original_height"}
WHOLE = SIDES | {"status", "error_message", "md5", "sha256", "exif"}
DIFFER = {
    "rotated": (SIDES, "the orientation is applied here"),
    "png16": (WHOLE, "16 bits become 8 here, and fail or come out black there"),
    "optout_date": (WHOLE, "a date with a colon hides an opt-out from img2dataset"),
}
# The same for one case alone.
DIFFER_IN = {"raw": {"empty": (WHOLE, "an empty body is no picture; there, nobody looks")}}

MODES = ["no", "border", "keep_ratio", "keep_ratio_largest", "center_crop"]
TXT = ["--output_format", "webdataset"]
CASES = {mode: [*TXT, "--resize_mode", mode, "--image_size", "200"] for mode in MODES}
CASES |= {
    "only_if_bigger": [*TXT, "--resize_only_if_bigger=True", "--resize_mode", "keep_ratio_largest", "--skip_reencode"],
    "filters": [*TXT, "--min_image_size", "100", "--max_image_area", "250000", "--max_aspect_ratio", "3"],
    "png": [*TXT, "--encode_format", "png", "--encode_quality", "3", "--resize_mode", "keep_ratio", "--image_size", "64"],
    "webp": [*TXT, "--encode_format", "webp", "--extract_exif", "False", "--compute_hash", "md5", "--image_size", "64"],
    "raw": [*TXT, "--disable_all_reencoding", "True", "--extract_exif", "False"],
    "files": ["--output_format", "files", "--image_size", "64"],
    "parquet": ["--output_format", "parquet", "--image_size", "64"],
    "dummy": ["--output_format", "dummy", "--image_size", "64"],
    "table": [*TXT, "--input_format", "parquet", "--url_col", "URL", "--caption_col", "TEXT", "--image_size", "64",
              "--save_additional_columns", '["id","score","tags","flag"]', "--number_sample_per_shard", "300"],
    "verify": [*TXT, "--input_format", "parquet", "--url_col", "URL", "--verify_hash", '["digest","sha256"]', "--image_size", "64"],
    "csv": [*TXT, "--input_format", "csv", "--url_col", "URL", "--caption_col", "TEXT", "--image_size", "64",
            "--save_additional_columns", '["id","score"]', "--disallowed_header_directives", "[]"],
}  # fmt: skip
QUICK = ["border", "filters", "table"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=1000, help="how many URLs")
    parser.add_argument("--bin", default=ROOT / "target" / "debug", type=pathlib.Path, help="where the tools are")
    parser.add_argument("--cache", default=ROOT / "target" / "peers", type=pathlib.Path, help="where packages are kept")
    parser.add_argument("--only", default="", help="the cases whose names hold this")
    parser.add_argument("--quick", action="store_true", help=f"only {', '.join(QUICK)}")
    args = parser.parse_args()
    python = args.cache / "venv" / "bin" / "python"
    if pathlib.Path(sys.prefix) != args.cache / "venv":
        if not python.exists():
            venv.create(args.cache / "venv", with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *PACKAGES], check=True)
        return subprocess.run([python, *sys.argv]).returncode
    return compare_all(args)


def compare_all(args):
    import pictures
    import server

    folder = args.cache / f"pictures-{args.count}"
    made = pictures.make(folder, args.count)
    address = server.start(folder)
    work = args.cache / "work"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    write_tables(work, folder, address, made)
    kinds = {f"{address}/{name}": kind for name, kind in made}
    names = [name for name in (QUICK if args.quick else CASES) if args.only in name]
    wrong = [fault for name in names for fault in compare(name, CASES[name], work, kinds, args)]
    wrong += read_with_others(work, names)
    wrong += read_records(work, args) if args.only in "tfrecord" else []
    print(f"{len(wrong)} wrong", *wrong[:60], sep="\n  ")
    return min(len(wrong), 100)


def write_tables(work, folder, address, made):
    import hashlib

    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet as pq

    urls = [f"{address}/{name}" for name, _ in made]
    (work / "urls.txt").write_text("".join(url + "\n" for url in urls))
    digest = [hashlib.sha256((folder / name).read_bytes()).hexdigest() for name, _ in made]
    captions = [None if i % 7 == 0 else f'caption "{i}", ünïcode' for i in range(len(urls))]
    columns = {
        "id": pa.array(range(len(urls)), pa.int64()),
        "URL": urls,
        "TEXT": captions,
        "score": pa.array([i / 7 for i in range(len(urls))], pa.float32()),
        "tags": pa.array([[i, i + 1] for i in range(len(urls))], pa.list_(pa.int32())),
        "flag": pa.array([i % 2 == 0 for i in range(len(urls))]),
        "digest": [text if i % 5 else "0" * 64 for i, text in enumerate(digest)],
    }
    table = pa.table(columns)
    pq.write_table(table, work / "urls.parquet")
    pyarrow.csv.write_csv(table.select(["id", "URL", "TEXT", "score"]), work / "urls.csv")


def compare(name, flags, work, kinds, args):
    """What is wrong in one case."""
    differ = DIFFER | DIFFER_IN.get(name, {})
    form = flags[flags.index("--input_format") + 1] if "--input_format" in flags else "txt"
    outputs = {}
    common = ["--url_list", work / f"urls.{form}", *flags, "--thread_count", "32", "--processes_count", "2"]
    commands = {
        "theirs": [sys.executable, "-W", "ignore", "-m", "img2dataset.main", *common],
        "ours": [sys.executable, ROOT / "scripts" / "img2dataset", *common, "--allow_private"],
    }
    for who, command in commands.items():
        outputs[who] = work / name / who
        outputs[who].parent.mkdir(exist_ok=True)
        done = run(command, outputs[who], args)
        if done.returncode != 0:
            return [f"{name}: {who}: exit status {done.returncode}: {done.stderr[-800:]}"]
    wrong = compare_names(outputs)
    if name != "dummy":
        wrong += compare_rows(outputs, kinds, differ) + compare_members(outputs, kinds, differ)
    wrong += compare_stats(outputs, kinds, differ)
    print(f"{name}: {len(wrong)} differences")
    return [f"{name}: {fault}" for fault in wrong]


def run(command, output, args):
    environment = {**os.environ, "PATH": f"{args.bin}:{os.environ['PATH']}", "NO_ALBUMENTATIONS_UPDATE": "1"}
    return subprocess.run([*map(str, command), "--output_folder", str(output)], env=environment, capture_output=True, text=True)


def compare_names(outputs):
    found = {who: sorted(file.name for file in folder.iterdir() if not file.name.startswith(".")) for who, folder in outputs.items()}
    return [] if found["theirs"] == found["ours"] else [f"files {found['theirs'][:8]} there, {found['ours'][:8]} here"]


def rows(folder):
    import pyarrow.parquet as pq

    tables = [pq.read_table(file) for file in sorted(folder.glob("*.parquet"))]
    return {row["key"]: row for table in tables for row in table.to_pylist()}, tables[0].schema


def compare_rows(outputs, kinds, differ):
    (theirs, their_schema), (ours, our_schema) = rows(outputs["theirs"]), rows(outputs["ours"])
    wrong = [] if set(theirs) == set(ours) else ["not the same keys"]
    expected = [(field.name, str(field.type)) for field in their_schema]
    got = [(field.name, str(field.type)) for field in our_schema if field.name != "code"]
    if sorted(expected) != sorted(got) or [name for name, _ in expected if name != "jpg"] != [name for name, _ in got if name != "jpg"]:
        wrong.append(f"columns {expected} there, {got} here")
    for key, row in theirs.items():
        kind = kinds[row["url"]]
        for column, value in row.items():
            if column in ("jpg", "exif") or column in differ.get(kind, ((),))[0]:
                continue
            if ours[key].get(column) != value and not same_failure(column, row, ours[key]):
                wrong.append(f"{key} {kind}: {column} is {value!r} there, {ours[key].get(column)!r} here ({ours[key]['code']})")
        if "exif" in row and (row["exif"] is None) != (ours[key]["exif"] is None) and kind not in differ:
            wrong.append(f"{key} {kind}: exif {row['exif']!r} there, {ours[key]['exif']!r} here")
    return wrong


def same_failure(column, theirs, ours):
    """Whether both failed at the same step and only the words of the library differ."""
    return column == "error_message" and theirs["status"] == ours["status"] == "failed_to_resize" and "OpenCV" in (theirs[column] or "")


def members(folder):
    """Names and json of all samples, in tars or folders."""
    found = {}
    for file in sorted(folder.glob("*.tar")):
        with tarfile.open(file) as archive:
            for member in archive:
                found[member.name] = archive.extractfile(member).read()
    for file in sorted(folder.glob("[0-9]*/*")):
        found[file.name] = file.read_bytes()
    return found


def compare_members(outputs, kinds, differ):
    theirs, ours = members(outputs["theirs"]), members(outputs["ours"])
    kind_of = lambda name, found: kinds.get(json.loads(found[name.split(".")[0] + ".json"])["url"])  # noqa: E731
    lone = [name for name in theirs if name not in ours and kind_of(name, theirs) not in differ]
    lone += [name for name in ours if name not in theirs and kind_of(name, ours) not in differ]
    wrong = [f"member {name} is only on one side" for name in lone]
    for name in set(theirs) & set(ours):
        if name.endswith(".txt") and theirs[name] != ours[name]:
            wrong.append(f"{name}: {theirs[name]!r} there, {ours[name]!r} here")
        if name.endswith(".json"):
            expected, got = json.loads(theirs[name]), json.loads(ours[name])
            skip = {"exif"} | set(differ.get(kinds[expected["url"]], ((),))[0])
            wrong += [f"{name}: {key} is {expected[key]!r} there, {got.get(key)!r} here" for key in expected if key not in skip and not alike(expected[key], got.get(key))]
            wrong += [f"{name}: keys {list(expected)} there, {list(got)} here"] if sorted(expected) != sorted(got) else []
    return wrong


def alike(a, b):
    """Single-precision numbers print longer in Python than they are."""
    return a == b or (isinstance(a, float) and isinstance(b, float) and abs(a - b) <= abs(a) * 1e-6)


def compare_stats(outputs, kinds, differ):
    def sums(folder):
        found = [json.loads(file.read_text()) for file in sorted(folder.glob("*_stats.json"))]
        counts = {key: sum(stats[key] for stats in found) for key in ("count", "successes", "failed_to_download", "failed_to_resize")}
        return [list(stats) for stats in found], counts

    (their_keys, theirs), (our_keys, ours) = sums(outputs["theirs"]), sums(outputs["ours"])
    wrong = [] if their_keys == our_keys else [f"fields of stats {their_keys[:1]} there, {our_keys[:1]} here"]
    free = sum(kind in differ for kind in kinds.values())
    return wrong + [f"stats: {key} {theirs[key]} there, {ours[key]} here" for key in theirs if abs(theirs[key] - ours[key]) > free]


def read_with_others(work, names):
    """The real webdataset and datasets read what was written."""
    wrong = []
    name = next((name for name in ("table", "border") if name in names), None)
    if name is None:
        return wrong
    tars = sorted(str(file) for file in (work / name / "ours").glob("*.tar"))
    expected = sum(json.loads(file.read_text())["successes"] for file in (work / name / "ours").glob("*_stats.json"))
    import webdataset

    read = sum(1 for sample in webdataset.WebDataset(tars, shardshuffle=False).decode("pil") if sample["jpg"].size and sample["json"]["key"])
    if read != expected:
        wrong.append(f"webdataset reads {read} samples of {expected}")
    import datasets

    loaded = datasets.load_dataset("webdataset", data_files={"train": tars}, split="train", cache_dir=str(work / "datasets"))
    if len(loaded) != expected or not loaded[0]["jpg"].size:
        wrong.append(f"datasets reads {len(loaded)} samples of {expected}")
    print(f"read by webdataset and datasets: {expected} samples")
    return wrong


def read_records(work, args):
    """The tfrecord package reads what is written for TensorFlow, and it says what the table says."""
    import crc32c
    import PIL.Image
    from tfrecord.reader import tfrecord_iterator, tfrecord_loader

    flags = CASES["table"][len(TXT) :]
    command = [sys.executable, ROOT / "scripts" / "img2dataset", "--url_list", work / "urls.parquet", *flags, "--output_format", "tfrecord"]
    folder = work / "tfrecord"
    done = run([*command, "--allow_private"], folder, args)
    if done.returncode != 0:
        return [f"tfrecord: exit status {done.returncode}: {done.stderr[-800:]}"]
    told = {key: row for key, row in rows(folder)[0].items() if row["status"] == "success"}
    wrong, read = [], 0
    masked = lambda data: ((crc := crc32c.crc32c(data)) >> 15 | crc << 17 & 0xFFFFFFFF) + 0xA282EAD8 & 0xFFFFFFFF  # noqa: E731
    for file in sorted(folder.glob("*.tfrecord")):
        raw, at = file.read_bytes(), 0
        for record in tfrecord_iterator(str(file)):
            length = len(record)
            sums = [masked(raw[at : at + 8]), masked(bytes(record))]
            found = [int.from_bytes(raw[start : start + 4], "little") for start in (at + 8, at + 12 + length)]
            wrong += [f"tfrecord: checksums {found} at {at} in {file.name}, not {sums}"] if sums != found else []
            at += length + 16
        for record in tfrecord_loader(str(file), None):
            read += 1
            row = told[bytes(record["key"]).decode()]
            size = PIL.Image.open(io.BytesIO(bytes(record["jpg"]))).size
            same = [
                size == (row["width"], row["height"]) == (record["width"][0], record["height"][0]),
                bytes(record["txt"]).decode() == (row["caption"] or ""),
                bytes(record["url"]).decode() == row["url"],
                record["id"][0] == row["id"] and bool(record["flag"][0]) == row["flag"] and list(record["tags"]) == row["tags"],
                abs(record["score"][0] - row["score"]) <= abs(row["score"]) * 1e-6,
            ]
            wrong += [f"tfrecord: {row['key']}: {same}"] if not all(same) else []
    wrong += [f"tfrecord reads {read} records of {len(told)}"] if read != len(told) else []
    print(f"read by tfrecord: {read} samples")
    return wrong


if __name__ == "__main__":
    sys.exit(main())
