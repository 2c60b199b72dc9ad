"""Broken and odd shards: each case is a dataset of one or more archives, and the samples that its author meant.

Loaders disagree about all of these; what each really does is for readers.py to find out.
"""

import bz2
import gzip
import io
import json
import lzma
import tarfile
import zlib
from struct import pack


def png(side=4):
    """A grey picture."""
    chunk = lambda kind, data: pack(">I", len(data)) + kind + data + pack(">I", zlib.crc32(kind + data))  # noqa: E731
    head = pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
    pixels = zlib.compress((b"\0" + b"\x80" * side) * side)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


PNG = png()


def tar(members, format=tarfile.USTAR_FORMAT, change=None):
    """An archive; a member is a name with its data, or a TarInfo of another type."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=format) as archive:
        for member in members:
            info, data = (member, b"") if isinstance(member, tarfile.TarInfo) else (tarfile.TarInfo(member[0]), member[1])
            info.size = len(data)
            if change:
                change(info)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def special(name, kind, target=""):
    """A member that is not a regular file."""
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def sample(key, **fields):
    """The members of a sample; by default a picture and a class."""
    fields = fields or {"png": PNG, "cls": b"7"}
    return [(f"{key}.{name}", data if isinstance(data, bytes) else json.dumps(data).encode()) for name, data in fields.items()]


def good(count, start=0, folder=""):
    return [member for i in range(start, start + count) for member in sample(f"{folder}s{i:04}")]


def metas(values, start=0):
    """Samples with one JSON each."""
    return [member for i, value in enumerate(values) for member in sample(f"s{start + i:04}", png=PNG, json=value)]


def flip(data, at):
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def meant(*shards):
    """The samples that the author of these members meant: (key, fields). Members with the same key in a shard belong together."""
    samples = []
    for members in shards:
        groups = {}
        for member in members:
            name = member.name if isinstance(member, tarfile.TarInfo) else member[0]
            folder, slash, base = name.rpartition("/")
            key, dot, field = base.partition(".")
            is_member = not isinstance(member, tarfile.TarInfo) or member.type in (tarfile.SYMTYPE, tarfile.LNKTYPE)
            if is_member and key and field and not name.startswith("__"):
                groups.setdefault(folder + slash + key, []).append(field.lower())
        samples += [(key, sorted(fields)) for key, fields in groups.items()]
    return samples


def cases():
    """(name, {file: bytes}, samples that were meant): datasets whose archives hold the members in order, as they are."""
    for name, shards, how in plain_cases():
        files = {f"{letter}.tar": tar(members, **how) for letter, members in zip("ab", shards)}
        yield name, files, meant(*shards)
    yield from damaged_cases()
    # Files whose names have dots: every key is the name without the last suffix.
    dotted = [(f"cat.{i}.{field}", data) for i in range(4) for field, data in (("png", PNG), ("cls", b"1"))]
    yield "dots_in_names", {"a.tar": tar(dotted)}, [(f"cat.{i}", ["cls", "png"]) for i in range(4)]
    # The same samples twice, not parts of the same samples.
    yield "key_again", {"a.tar": tar(good(3) + good(1))}, meant(good(3), good(1))


def damaged_cases():
    """Compressed, cut, damaged and joined archives of ten samples."""
    members = good(10)
    ten, samples = tar(members), meant(members)
    end = 10 * 2 * 1024  # twenty members of a header and a block
    large = tar([*members, ("s9.png", PNG * 20)])
    for name, files in {
        "gzip": {"a.tar.gz": gzip.compress(ten, mtime=0)},
        "gzip_named_tar": {"a.tar": gzip.compress(ten, mtime=0)},
        "bzip2": {"a.tar.bz2": bz2.compress(ten)},
        "xz": {"a.tar.xz": lzma.compress(ten)},
        "no_end": {"a.tar": ten[:end]},
        "one_end_block": {"a.tar": ten[: end + 512]},
        "cut_in_header": {"a.tar": ten[: end - 1024 + 200]},
        "flipped_header": {"a.tar": flip(ten, 12 * 1024 + 5)},
        "flipped_first_header": {"a.tar": flip(ten, 5)},
        "not_tar": {"a.tar": b"not an archive " * 100},
        "empty_file": {"a.tar": b""},
        "zero_block": {"a.tar": ten[: 10 * 1024] + bytes(512) + ten[10 * 1024 :]},
        "junk_after_end": {"a.tar": ten + b"junk" * 300},
        "cut_gzip": {"a.tar.gz": gzip.compress(ten, mtime=0)[:-30]},
    }.items():
        yield name, files, samples
    yield "cut_in_data", {"a.tar": large[: end + 512 + 600]}, [*samples, ("s9", ["png"])]
    yield "concatenated", {"a.tar": ten + tar(good(10, 10))}, samples + meant(good(10, 10))
    yield "empty_second_shard", {"a.tar": ten, "b.tar": tar([])}, samples


def plain_cases():
    """(name, members of each shard, arguments of tar)"""
    long = "folder/" * 16
    yield "good", [good(10)], {}
    yield "good_two_shards", [good(10), good(10, 10)], {}
    yield "good_one_field", [[(f"s{i}.png", PNG) for i in range(3)]], {}
    yield "good_folders", [good(3, folder="x/") + good(3, folder="y/")], {}
    yield "good_dots_in_folder", [good(3, folder="v1.2/")], {}
    yield "empty_archive", [[]], {}
    yield "upper_case", [[m for i in range(6) for m in sample(f"s{i}", PNG=PNG, cls=b"1")]], {}
    yield "mixed_case", [good(3) + [m for i in range(6, 9) for m in sample(f"s{i}", PNG=PNG, cls=b"1")]], {}
    yield "case_twins", [[m for i in range(3) for m in sample(f"s{i}", png=PNG, PNG=PNG)]], {}
    yield "duplicate_field", [[*good(2), ("x.png", PNG), ("x.png", PNG)]], {}
    yield "mixed_suffixes", [good(2) + [m for i in range(6, 9) for m in sample(f"s{i}", jpg=PNG, cls=b"1")]], {}
    yield "late_suffix", [good(8) + [m for i in range(8, 9) for m in sample(f"s{i:04}", bmp=PNG, cls=b"1")]], {}
    yield "late_suffix_second_shard", [good(10), sample("t1", png=PNG, cls=b"1", txt=b"t")], {}
    yield "missing_early", [good(2) + sample("s9", png=PNG)], {}
    yield "missing_late", [good(8) + sample("s9", png=PNG)], {}
    yield "missing_second_shard", [good(10), sample("t1", png=PNG)], {}
    yield "dots_differ", [[(f"cat{i}.v{i}.png", PNG) for i in range(4)]], {}
    yield "interleaved", [[(f"s{i}.png", PNG) for i in range(3)] + [(f"s{i}.cls", b"1") for i in range(3)]], {}
    yield "key_in_two_shards", [good(3), good(3, 2)], {}
    yield "dot_files", [[m for i in range(3) for m in [(f"._s{i}.png", b"mac"), *sample(f"s{i}")]]], {}
    yield "dot_files_in_folder", [[m for i in range(3) for m in [(f"x/._s{i}.png", b"mac"), *sample(f"x/s{i}")]]], {}
    split = [[(f"x/s{i}.png", PNG), (f"x/._s{i}.cls", b"mac"), (f"x/s{i}.cls", b"1")] for i in range(3)]
    yield "dot_files_in_sample", [sum(split, [])], {}
    yield "dunder_keys", [good(2, folder="x/") + sample("x/__s") + good(1, 5, folder="x/")], {}
    yield "metadata", [[("__meta__/info.json", b"{}"), *good(3)]], {}
    yield "metadata_plain", [[("__info__", b"{}"), *good(3)]], {}
    yield "readme", [[("README", b"hello"), *good(3), ("LICENSE", b"free")]], {}
    yield "readme_md", [[*good(6), ("README.md", b"hello")]], {}
    yield "readme_md_first", [[("README.md", b"hello"), *good(6)]], {}
    yield "directories", [[special("x", tarfile.DIRTYPE), *good(3, folder="x/")]], {}
    yield "links", [[*good(3), special("s3.png", tarfile.SYMTYPE, "s0.png"), ("s3.cls", b"1")]], {}
    yield "hard_links", [[*good(6), special("s6.png", tarfile.LNKTYPE, "s0000.png"), ("s6.cls", b"1")]], {}
    yield "long_names", [good(3, folder=long)], {}
    yield "long_names_pax", [good(3, folder=long + "x" * 100 + "/")], dict(format=tarfile.PAX_FORMAT)
    yield "long_names_gnu", [good(3, folder=long + "x" * 100 + "/")], dict(format=tarfile.GNU_FORMAT)
    yield "pax_times", [good(3)], dict(format=tarfile.PAX_FORMAT, change=lambda info: setattr(info, "mtime", 1.5))
    yield "non_ascii", [[m for key in ("ä", "名", "z") for m in sample(key)]], dict(format=tarfile.PAX_FORMAT)
    yield "leading_dot_slash", [good(3, folder="./")], {}
    yield "absolute", [[*good(3), ("/etc/s9.png", PNG), ("/etc/s9.cls", b"1")]], {}
    yield "field_empty", [[*good(6), ("s0005.", b"")]], {}
    yield "bad_cls", [[*good(3), *sample("s9", png=PNG, cls=b"cat")]], {}
    yield "cls_with_newline", [[m for i in range(3) for m in sample(f"s{i}", png=PNG, cls=b"7\n")]], {}
    yield "cls_empty", [[*good(6), *sample("s9", png=PNG, cls=b"")]], {}
    yield "bad_json", [metas([{"a": 1}, {"a": 2}]) + sample("s9", png=PNG, json=b"{a:")], {}
    yield "bad_txt", [[m for i in range(3) for m in sample(f"s{i}", txt=b"caf\xe9")]], {}
    yield "json_lists", [metas([{"a": [1, 2]}, {"a": []}, {"a": None}])], {}
    yield "json_new_key_early", [metas([{"a": 1}, {"a": 1, "b": 2}])], {}
    yield "json_new_key_late", [metas([{"a": 1}] * 8 + [{"a": 1, "b": 2}])], {}
    yield "json_missing_key_late", [metas([{"a": 1, "b": 2}] * 8 + [{"a": 1}])], {}
    yield "json_type_early", [metas([{"a": 1}, {"a": "x"}])], {}
    yield "json_type_late", [metas([{"a": 1}] * 8 + [{"a": "x"}])], {}
    yield "json_number_early", [metas([{"a": 1}, {"a": 1.5}])], {}
    yield "json_text_to_number", [metas([{"a": "x"}] * 8 + [{"a": 1}])], {}
    yield "json_number_to_list", [metas([{"a": 1}] * 8 + [{"a": [1]}])], {}
    yield "json_in_list_late", [metas([{"a": [1]}] * 8 + [{"a": ["x"]}])], {}
    yield "json_float_late", [metas([{"a": 1}] * 8 + [{"a": 1.5}])], {}
    yield "json_null_then_text", [metas([{"a": None}] * 8 + [{"a": "x"}])], {}
    yield "json_empty_objects", [metas([{}] * 6)], {}
    yield "broken_picture", [[*good(3), *sample("s9", png=b"\x89PNG\r\n\x1a\n", cls=b"1")]], {}
    yield "empty_picture", [[*good(3), *sample("s9", png=b"", cls=b"1")]], {}
    yield "pth", [[m for i in range(3) for m in sample(f"s{i}", png=PNG, pth=b"x")]], {}
