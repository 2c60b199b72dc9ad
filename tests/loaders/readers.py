"""The real loaders. `python readers.py LOADER FOLDER...` reads the shards of each folder and prints one line of JSON: the
rows that the loader returns, as keys with lists of fields, or why it fails.
"""

import contextlib
import json
import pathlib
import sys


def read_hf(shards, folder):
    import datasets

    datasets.disable_progress_bars()
    data = datasets.load_dataset("webdataset", data_files={"train": shards}, split="train", cache_dir=str(folder / "cache"))
    for column, feature in data.features.items():
        if isinstance(feature, (datasets.Image, datasets.Audio, datasets.Video)):
            data = data.cast_column(column, type(feature)(decode=False))
    for row in data:
        yield row["__key__"], {k for k, v in row.items() if not k.startswith("__") and v is not None}


def read_webdataset(shards, _folder):
    import webdataset

    for row in webdataset.WebDataset(shards, shardshuffle=False, empty_check=False):
        yield row["__key__"], {k for k in row if not k.startswith("__")}


def read_wids(shards, _folder):
    from wids.wids import IndexedTarSamples

    for shard in shards:
        archive = IndexedTarSamples(path=shard)
        for i in range(len(archive)):
            row = archive[i]
            yield row["__key__"], {k[1:] for k in row if not k.startswith("__")}


def read_ray(shards, _folder):
    import ray

    ray.init(num_cpus=1, include_dashboard=False, configure_logging=False, log_to_driver=False, ignore_reinit_error=True)
    ray.data.DataContext.get_current().enable_progress_bars = False
    for row in ray.data.read_webdataset(shards).take_all():
        # Pandas fills what a row lacks with NaN.
        missing = {k for k, v in row.items() if v is None or (isinstance(v, float) and v != v)}
        yield row["__key__"], {k for k in row if not k.startswith("__")} - missing


def read_energon(shards, folder):
    from megatron.energon.epathlib import EPath
    from megatron.energon.flavors.webdataset.itar_reader import ShardInfosITarReader
    from megatron.energon.flavors.webdataset.metadata import get_dataset_info
    from megatron.energon.flavors.webdataset.prepare import WebdatasetPreparator
    from megatron.energon.flavors.webdataset.structs import ShardInfo

    names = [pathlib.Path(shard).name for shard in shards]
    if not all(name.endswith((".tar", ".tgz")) for name in names):
        raise ValueError("energon prepare looks only for *.tar and *.tgz")
    WebdatasetPreparator.prepare_dataset(folder, names, split_parts_ratio=[("train", 1)], shuffle_seed=None, workers=1)
    counts = get_dataset_info(EPath(folder))["shard_counts"]
    infos = [ShardInfo(name=name, path=EPath(folder) / name, count=counts[name]) for name in names]
    reader = ShardInfosITarReader(EPath(folder), infos)
    for i in range(len(reader)):
        row = reader[i]
        yield row["__key__"], {k for k in row if not k.startswith("__")}


READERS = {"hf": read_hf, "webdataset": read_webdataset, "wids": read_wids, "ray": read_ray, "energon": read_energon}


def read(loader, folder):
    """What the loader returns for the shards of a folder, or why it fails."""
    shards = sorted(str(path) for path in folder.iterdir() if path.is_file())
    try:
        with contextlib.redirect_stdout(sys.stderr):
            rows = list(READERS[loader](shards, folder))
    except (Exception, SystemExit) as err:
        return {"why": f"{type(err).__name__}: {err} / {err.__cause__}"[-300:]}
    return {"rows": [[key, sorted(field.lower() for field in fields)] for key, fields in rows]}


def main():
    loader, *folders = sys.argv[1:]
    for folder in folders:
        print(json.dumps({"folder": folder, **read(loader, pathlib.Path(folder))}), flush=True)


if __name__ == "__main__":
    main()
